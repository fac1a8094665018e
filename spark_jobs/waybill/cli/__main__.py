"""`python -m waybill.cli`."""

from __future__ import annotations

from waybill.cli import main

if __name__ == "__main__":
    main()
