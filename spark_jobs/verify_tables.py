"""Entry script of a verification for spark-submit: arguments as `waybill.jobs.main` says."""

from __future__ import annotations

import sys

from waybill.jobs import main

if __name__ == "__main__":
    sys.exit(main("verify"))
