"""Files in a folder, local or behind a URL: whole or not there, and never put twice by accident.

Object storage works, and what fsspec knows by its URL; a local folder needs nothing. Files appear
under their names only when they are whole, and `create` tells whether this caller was the one who
put a file.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Protocol

from waybill.errors import Code, ConfigurationError, ConflictError
from waybill.storage.objects.places import is_object_url
from waybill.storage.open import open_storage

TEMPORARY = ".writing-"
"""What the names of files that are not whole begin with."""

_NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS)
"""What a folder says in which this user may not make files."""

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS)
"""What file systems say that know no hard links, as FAT and shares of Windows do."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


class Store(Protocol):
    """One folder."""

    root: str
    """The folder, as people name it."""

    def write(self, name: str) -> Any:
        """A context manager that gives a stream; the file appears when the block ends well."""

    def create(self, name: str, content: bytes) -> bool:
        """Put a small file if there is none; False if there is one, which stays as it is."""

    def read(self, name: str) -> bytes | None:
        """A small file's content, None if there is no such file."""

    def names(self) -> list[str]:
        """The names of the files right in the folder, also of those that are not whole."""

    def remove(self, name: str) -> None:
        """Remove a file; one that is gone already is not an error."""

    def path(self, name: str) -> str:
        """A file as people name it."""


class LocalStore:
    """A folder of this machine."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._folder = Path(root)

    @contextmanager
    def write(self, name: str) -> Iterator[IO[bytes]]:
        """Write beside the name, then rename."""
        target = self._folder / name
        beside = self._beside(name)
        try:
            with _opened(beside) as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
        except BaseException:
            with suppress(OSError):  # the first error is the one to tell
                beside.unlink()
            raise
        try:
            beside.replace(target)
        except FileNotFoundError as error:
            raise ConflictError(_taken_away(target), code=Code.CONCURRENT_RUN) from error

    def create(self, name: str, content: bytes) -> bool:
        """Write beside the name, then link: a link is made once or not at all."""
        target = self._folder / name
        beside = self._beside(name)
        try:
            with _opened(beside) as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            os.link(beside, target)
        except FileExistsError:
            return False
        except FileNotFoundError as error:
            raise ConflictError(_taken_away(target), code=Code.CONCURRENT_RUN) from error
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            message = (
                f"{target} cannot be put there, because the file system of {target.parent} has no "
                f"hard links ({error.strerror}): name a folder on another one, or in object storage"
            )
            raise ConfigurationError(message, code=Code.PLACE_NOT_WRITABLE) from error
        finally:
            with suppress(OSError):
                beside.unlink()
        return True

    def read(self, name: str) -> bytes | None:
        """The whole content."""
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def stamp(self, name: str) -> tuple[int, ...]:
        """Changes with the file; empty where there is none, or none that can be seen."""
        try:
            found = (self._folder / name).stat()
        except OSError:
            return ()
        return found.st_ino, found.st_mtime_ns, found.st_size

    def names(self) -> list[str]:
        """Files only, no folders."""
        if not self._folder.is_dir():
            return []
        return sorted(entry.name for entry in self._folder.iterdir() if entry.is_file())

    def remove(self, name: str) -> None:
        """Unlink."""
        (self._folder / name).unlink(missing_ok=True)

    def path(self, name: str) -> str:
        """An absolute path."""
        return str(self._folder / name)

    def _beside(self, name: str) -> Path:
        target = self._folder / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            message = f"{target.parent} cannot be made ({error.strerror}); name a folder to write"
            raise ConfigurationError(message, code=Code.PLACE_NOT_WRITABLE) from error
        return target.with_name(f"{TEMPORARY}{target.name}-{secrets.token_hex(6)}")


class UrlStore:
    """A folder behind a URL that fsspec knows. A file appears whole by that storage's own rule."""

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/")
        self._system, self._folder = open_storage(self.root)

    @contextmanager
    def write(self, name: str) -> Iterator[IO[bytes]]:
        """Upload; the upload is given up if the block fails."""
        stream = self._system.open(f"{self._folder}/{name}", "wb")
        try:
            yield stream
        except BaseException:
            with suppress(Exception):  # the first error is the one to tell
                stream.discard()
            raise
        stream.close()

    def create(self, name: str, content: bytes) -> bool:
        """A conditional put."""
        try:
            self._system.pipe_file(f"{self._folder}/{name}", content, mode="create")
        except FileExistsError:
            return False
        return True

    def read(self, name: str) -> bytes | None:
        """The whole content."""
        try:
            content: bytes = self._system.cat_file(f"{self._folder}/{name}")
        except FileNotFoundError:
            return None
        return content

    def names(self) -> list[str]:
        """Files only."""
        try:
            found = self._system.ls(self._folder, detail=True, refresh=True)
        except FileNotFoundError:
            return []
        return sorted(Path(entry["name"]).name for entry in found if entry["type"] == "file")

    def remove(self, name: str) -> None:
        """Delete."""
        with suppress(FileNotFoundError):
            self._system.rm_file(f"{self._folder}/{name}")

    def path(self, name: str) -> str:
        """The URL."""
        return f"{self.root}/{name}"


def open_store(folder: str) -> Store:
    """The folder of a path or URL; it need not be there yet.

    Raises:
        ConfigurationError: nothing installed knows the URL's scheme, or its connection is wrong.
    """
    if is_object_url(folder):
        from waybill.storage.objects.store import ObjectStore

        return ObjectStore(folder)
    match = _SCHEME.match(folder)
    if match is None:
        return LocalStore(os.path.abspath(folder))  # noqa: PTH100 - it need not be there
    if match[1] == "file":
        return LocalStore(folder.removeprefix("file://"))
    return UrlStore(folder)


def file_name(text: str) -> str:
    """A name for any text that every file system and object store takes.

    Letters, digits and `._=-` stay; where anything else was in it, a short hash keeps different
    texts apart.
    """
    plain = re.sub(r"[^A-Za-z0-9_=.-]", "-", text).lstrip(".")[:100] or "-"
    if plain == text:
        return plain
    return f"{plain}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _opened(beside: Path) -> IO[bytes]:
    """A new file.

    Raises:
        ConfigurationError: its folder is there and takes no files.
        ConflictError: its folder, which was there, is gone.
    """
    try:
        return beside.open("xb")
    except FileNotFoundError as error:
        if not beside.parent.is_dir():
            raise ConflictError(_taken_away(beside.parent), code=Code.CONCURRENT_RUN) from error
        raise _takes_no_files(beside, error) from error
    except OSError as error:
        if error.errno not in _NOT_ALLOWED:
            raise
        raise _takes_no_files(beside, error) from error


def _takes_no_files(beside: Path, error: OSError) -> ConfigurationError:
    message = f"{beside.parent} takes no files ({error.strerror}); name a folder to write"
    return ConfigurationError(message, code=Code.PLACE_NOT_WRITABLE)


def _taken_away(target: Path) -> str:
    return f"another run removed {target} while it was written: it does the same work, so run again"
