"""Objects as files to read, by fsspec's interface.

An object is read in ranges, each under the condition that it still is the one that was opened, so
nobody gets the beginning of one object and the end of another.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from waybill.errors import Code, SourceError
from waybill.storage.objects.client import TAKEN, client_of, code_of, errors_translated, patiently
from waybill.storage.objects.places import Access, ObjectPlace, access_to, place_of

BLOCK = 8 << 20
"""Bytes that are fetched ahead of what is read."""


class ObjectFiles(AbstractFileSystem):  # type: ignore[misc]
    """The buckets that one connection reaches; a path is `bucket/key`.

    Folders are only what keys have in common, so an empty one is not there.
    """

    cachable = False
    protocol = ("s3", "oss")

    def __init__(self, place: ObjectPlace, access: Access) -> None:
        super().__init__()
        self._prefix = place.prefix
        self._access = access
        self._client = client_of(access)

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        text = str(path)
        if "://" not in text:
            return text.strip("/")
        place = place_of(text)
        return f"{place.bucket}/{place.key}".rstrip("/")

    def unstrip_protocol(self, name: str) -> str:
        """The URL of a path, with the connection that it was given with."""
        return f"{self._prefix}{self._strip_protocol(name)}"

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """What the store says of an object or a folder.

        Raises:
            FileNotFoundError: there is neither.
        """
        place = self._place(path)
        if place.key:
            try:
                with errors_translated(place, self._access):
                    found = self._client.head_object(Bucket=place.bucket, Key=place.key)
                return _entry(place, place.key, found["ContentLength"], found)
            except FileNotFoundError:
                pass
        with errors_translated(place, self._access):
            listed = self._client.list_objects_v2(
                Bucket=place.bucket, Prefix=_folder(place), MaxKeys=1
            )
        if place.key and not listed.get("KeyCount"):
            raise FileNotFoundError(place.url)
        return {"name": self._strip_protocol(path), "size": 0, "type": "directory"}

    def exists(self, path: str, **_: Any) -> bool:
        """Whether there is an object or a folder; a store that does not answer is an error."""
        try:
            self.info(path)
        except FileNotFoundError:
            return False
        return True

    def isfile(self, path: str) -> bool:
        """Whether there is an object of that name."""
        try:
            return bool(self.info(path)["type"] == "file")
        except FileNotFoundError:
            return False

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """What is right in a folder."""
        place = self._place(path)
        found = list(self._listed(place, deep=False))
        if not found:
            info = self.info(path)
            found = [info] if info["type"] == "file" else []
        return found if detail else [entry["name"] for entry in found]

    def find(
        self, path: str, maxdepth: int | None = None, withdirs: bool = False, **given: Any
    ) -> Any:
        """Every object below a folder, by one listing; folders are never among them."""
        place = self._place(path)
        found = {entry["name"]: entry for entry in self._listed(place, deep=maxdepth != 1)}
        if not found and place.key and self.isfile(path):
            found = {self._strip_protocol(path): self.info(path)}
        above = self._strip_protocol(path).count("/")
        kept = {
            name: entry
            for name, entry in sorted(found.items())
            if entry["type"] == "file" and (maxdepth is None or name.count("/") - above <= maxdepth)
        }
        return kept if given.get("detail") else list(kept)

    def _listed(self, place: ObjectPlace, deep: bool) -> Iterator[dict[str, Any]]:
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=place.bucket, Prefix=_folder(place), **({} if deep else {"Delimiter": "/"})
        )
        with errors_translated(place, self._access):
            for page in pages:
                for item in page.get("Contents", []):
                    # A key that ends in a slash is how consoles make an empty folder.
                    if not item["Key"].endswith("/"):
                        yield _entry(place, item["Key"], item["Size"], item)
                for item in page.get("CommonPrefixes", []):
                    name = f"{place.bucket}/{item['Prefix'].rstrip('/')}"
                    yield {"name": name, "size": 0, "type": "directory"}

    def _open(self, path: str, mode: str = "rb", block_size: Any = None, **_: Any) -> ObjectFile:
        if mode != "rb":
            message = f"{path} can be read here only; waybill.storage.file_store writes"
            raise NotImplementedError(message)
        return ObjectFile(self, self._strip_protocol(path), mode, block_size=BLOCK)

    def fetch(self, path: str, tag: str, start: int, end: int) -> bytes:
        """A range of an object.

        Raises:
            SourceError: the object is another than the one with this tag.
        """
        from botocore.exceptions import ClientError

        place = self._place(path)

        def read() -> bytes:
            answer = self._client.get_object(
                Bucket=place.bucket,
                Key=place.key,
                Range=f"bytes={start}-{end - 1}",
                IfMatch=f'"{tag}"',
            )
            content: bytes = answer["Body"].read()
            return content

        if end <= start:
            return b""
        with errors_translated(place, self._access):
            try:
                return patiently(read)
            except ClientError as error:
                if code_of(error) not in TAKEN:
                    raise
                message = (
                    f"{place.url} was written to while it was read: rename files to their final "
                    "name when they are complete, then run the batch again"
                )
                raise SourceError(message, code=Code.SOURCE_GROWING) from error

    def _place(self, path: str) -> ObjectPlace:
        return place_of(self.unstrip_protocol(path))


class ObjectFile(AbstractBufferedFile):  # type: ignore[misc]
    """One object, opened to read."""

    def _fetch_range(self, start: int, end: int) -> bytes:
        fs: ObjectFiles = self.fs
        return fs.fetch(self.path, self.details["ETag"], start, min(end, self.size))


def open_objects(url: str) -> tuple[ObjectFiles, str]:
    """The file system of a URL, and the path as it takes it.

    Raises:
        ConfigurationError: the URL or its connection cannot be used.
    """
    place = place_of(url)
    return ObjectFiles(place, access_to(place)), f"{place.bucket}/{place.key}".rstrip("/")


def _folder(place: ObjectPlace) -> str:
    return f"{place.key}/" if place.key else ""


def _entry(place: ObjectPlace, key: str, size: int, entry: Any) -> dict[str, Any]:
    return {
        "name": f"{place.bucket}/{key}",
        "size": int(size),
        "type": "file",
        "ETag": str(entry["ETag"]).strip('"'),
        "LastModified": entry.get("LastModified"),
    }
