"""A folder that belongs to one running demo or stack, and is emptied for the next."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path
from typing import NamedTuple

from waybill.errors import WaybillError


class FolderError(WaybillError):
    """The folder is in use, or holds something else; the message says what to do."""


class Owner(NamedTuple):
    """Who a folder belongs to.

    Attributes:
        name: what it is to people.
        variable: the environment variable that names another folder.
        made: the names in the folder that it makes; nothing else is ever removed.
    """

    name: str
    variable: str
    made: tuple[str, ...]


def own_folder(home: Path, owner: Owner) -> int:
    """Empty the folder of an earlier one and lock it.

    Returns:
        The lock, a file descriptor; the folder is free when every copy of it is closed.

    Raises:
        FolderError: it is another's, or one is running there.
    """
    mark = home / f".waybill-{owner.name}"
    if home.exists() and any(home.iterdir()) and not mark.exists():
        message = (
            f"{home} holds something that is not a {owner.name}'s: name a new folder in "
            f"{owner.variable}"
        )
        raise FolderError(message)
    home.mkdir(parents=True, exist_ok=True)
    lock = os.open(mark, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        message = (
            f"a {owner.name} is running in {home}: end it with Ctrl-C where it runs, or name "
            f"another folder in {owner.variable}"
        )
        raise FolderError(message) from error
    for name in owner.made:
        shutil.rmtree(home / name, ignore_errors=True)
    return lock
