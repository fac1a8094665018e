"""The files at a path: a file, a folder or a pattern, on a disk or in object storage."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from posixpath import basename, dirname, join
from typing import Any

from waybill.errors import Code, SourceError
from waybill.sources.streams import PACKED
from waybill.storage.open import open_storage

File = tuple[str, dict[str, Any]]
"""Path or URL of a file, and what the storage says of it."""

_MAGIC = frozenset("*?[")
_HIDDEN = (".", "_")


@dataclass(slots=True)
class Listing:
    """What was found at a path.

    Attributes:
        base: folder that names are relative to.
        there: whether there is a file or a folder, or a pattern was given.
        files: the files by name below `base`.
        left_out: names of files of another suffix, and of what is not a file: a link that leads
            nowhere, a device. Names that are hidden by convention (`_`, `.`) are not listed.
        doubled: names of links to files that are listed under another name.
    """

    base: str
    there: bool = True
    files: dict[str, File] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)


def listed(path: str, suffixes: tuple[str, ...]) -> Listing:
    """The files at a path.

    Args:
        path: a file, a folder or a pattern.
        suffixes: those of files that count in a folder; a pattern takes any.

    Raises:
        SourceError: a folder cannot be listed, or the name of a file is not UTF-8.
    """
    fs, place = open_storage(path)
    place = place.rstrip("/") or "/"
    if fs.isfile(place):
        return Listing(dirname(place), files={basename(place): (_url(fs, place), fs.info(place))})
    exists = fs.exists(place)
    pattern = not exists and bool(_MAGIC & set(place))
    if not pattern and not exists:
        return Listing(place, there=False)
    try:
        entries = fs.glob(place, detail=True) if pattern else fs.find(place, detail=True)
    except OSError as error:
        message = f"{path} cannot be listed ({error}); allow it, or remove what is in the way"
        raise SourceError(message, code=Code.SOURCE_UNREADABLE) from error
    hidden = () if pattern and basename(place).startswith(_HIDDEN) else _HIDDEN
    found = Listing(_folder_of(place) if pattern else place)
    # Not `relpath`, which takes keys like `a//b` and `a/b` for one.
    above = f"{found.base.rstrip('/')}/"
    for file, info in entries.items():
        name = file.removeprefix(above)
        if info.get("type") == "directory" or _is_hidden(name, hidden):
            continue
        shown = name.encode("utf-8", "backslashreplace").decode()
        if info.get("type") != "file" or not (pattern or _unpacked_name(name).endswith(suffixes)):
            found.left_out.append(shown)
        elif shown != name:
            message = (
                f"the name of {above}{shown} is not UTF-8, so what was read cannot be recorded "
                "under it: rename the file, or move it out of the folder, then run again"
            )
            raise SourceError(message, code=Code.SOURCE_UNREADABLE)
        else:
            found.files[name] = (_url(fs, file), info)
    if _is_local(fs):
        found.doubled = _doubled(found)
        for name in found.doubled:
            del found.files[name]
    return found


def token_of(info: dict[str, Any]) -> str:
    """What the storage says that changes with a file's content."""
    for name in ("ETag", "etag", "md5Hash", "version_id"):
        if info.get(name):
            return str(info[name]).strip('"')
    # A local file's time of change ("created" here) cannot be set back by those who set its times.
    times = [info.get(name) for name in ("mtime", "created", "LastModified", "last_modified")]
    return "/".join(str(time) for time in times if time is not None)


def _doubled(found: Listing) -> list[str]:
    """Names that lead to a file of another name; the name without a link is the file's own."""
    folders: dict[str, str] = {}
    own = os.path.realpath(found.base)
    real: dict[str, str] = {}
    for name, (path, info) in found.files.items():
        folder = dirname(path)
        if folder not in folders:
            folders[folder] = os.path.realpath(folder)
        real[name] = (
            os.path.realpath(path) if info["islink"] else join(folders[folder], basename(path))
        )
    first: dict[str, str] = {}
    for name in sorted(real, key=lambda name: (real[name] != join(own, name), name)):
        first.setdefault(real[name], name)
    return sorted(name for name in real if first[real[name]] != name)


def _is_hidden(name: str, hidden: tuple[str, ...]) -> bool:
    """Whether a part of a name is hidden; keys of objects may hold the parts `.` and `..`."""
    return any(part.startswith(hidden) for part in name.split("/") if part not in (".", ".."))


def _folder_of(pattern: str) -> str:
    parts = pattern.split("/")
    plain = next(i for i, part in enumerate(parts) if _MAGIC & set(part))
    return "/".join(parts[:plain]) or "/"


def _unpacked_name(name: str) -> str:
    return name[: name.rfind(".")] if name.endswith(PACKED) else name


def _is_local(fs: Any) -> bool:
    protocol = fs.protocol if isinstance(fs.protocol, str) else fs.protocol[0]
    return protocol in ("file", "local")


def _url(fs: Any, path: str) -> str:
    return path if _is_local(fs) else str(fs.unstrip_protocol(path))
