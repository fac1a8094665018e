"""Whether there is a Java that Spark can run, asked before Spark fails over it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from waybill.errors import Code, ConfigurationError

OLDEST = 17
"""The oldest version of Java that Spark 4 runs on."""

PATIENCE = 30
"""Seconds until a Java that does not even tell its version is given up."""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def check_java() -> None:
    """See that Spark's launcher will find a Java, where it looks for one.

    Raises:
        ConfigurationError: there is none, or it is too old or does not run.
    """
    home = os.environ.get("JAVA_HOME")
    if home:
        java, where = str(Path(home) / "bin" / "java"), f"in JAVA_HOME={home}"
        fix = f"set JAVA_HOME to a Java {OLDEST} or newer, or unset it where one is on the PATH"
    else:
        java, where = shutil.which("java") or "", "on the PATH"
        fix = f"install Java {OLDEST} or newer, or set JAVA_HOME to one"
    if not java or not os.access(java, os.X_OK) or not Path(java).is_file():
        raise ConfigurationError(
            f"there is no Java {where}, which Spark needs: {fix}", code=Code.JAVA
        )
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigurationError(
            f"the Java {where} does not run ({error}): {fix}", code=Code.JAVA
        ) from error
    found = _VERSION.search(done.stderr + done.stdout)
    if done.returncode or found is None:
        said = " ".join((done.stderr + done.stdout).split())[:200] or f"status {done.returncode}"
        raise ConfigurationError(f"the Java {where} does not run ({said}): {fix}", code=Code.JAVA)
    if int(found[1]) < OLDEST:
        raise ConfigurationError(
            f"the Java {where} is version {found[1]}, too old: {fix}", code=Code.JAVA
        )
