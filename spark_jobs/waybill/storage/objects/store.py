"""A folder of object storage to write into: objects are whole or not there, and put once.

An object larger than a part is sent in parts, and appears when the last request puts them together.
Every part brings its MD5 sum, so a server never keeps other bytes than were sent. What a killed
writer sent in parts is not seen; a rule of the bucket should clear it away after some days.
"""

from __future__ import annotations

import base64
import hashlib
import io
import logging
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from mimetypes import MimeTypes
from typing import IO, TYPE_CHECKING, Any

from waybill.errors import Code, UnavailableError
from waybill.storage.objects.client import (
    GONE,
    PAUSES,
    TAKEN,
    client_of,
    code_of,
    errors_translated,
    patiently,
    server_of,
)
from waybill.storage.objects.places import Access, ObjectPlace, access_to, place_of

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

PART = 8 << 20
"""Bytes of a part; it doubles with every thousand parts, of which there may be ten thousand."""

MARK = "waybill-put"
"""Name of an object's metadata that tells who put it."""

UNSUPPORTED = frozenset({"NotImplemented", "501"})

_log = logging.getLogger("waybill")
_conditional: dict[tuple[str, str], bool] = {}
"""By endpoint and bucket: whether the server puts an object only if there is none."""


class ObjectStore:
    """A folder behind a URL such as `s3://bucket/folder`.

    Raises:
        ConfigurationError: the URL or its connection cannot be used.
    """

    def __init__(self, root: str) -> None:
        self._place = place_of(root)
        self._access = access_to(self._place)
        self._client = client_of(self._access)
        self.root = self._place.url

    @contextmanager
    def write(self, name: str) -> Iterator[IO[bytes]]:
        """Send; what was sent is given up if the block fails."""
        place = self._at(name)
        upload: Any = Upload(self._client, place, self._access)
        try:
            yield upload
        except BaseException:
            with suppress(Exception):  # the first error is the one to tell
                upload.give_up()
            raise
        upload.finish()

    def create(self, name: str, content: bytes) -> bool:
        """Put under the condition that there is none.

        A server that knows no conditions is noticed; there it looks first, then puts, and says so:
        of two that put in the same moment both may then believe to be first.
        """
        place = self._at(name)
        server = (self._access.endpoint, place.bucket)
        if self._access.conditional is not None:
            _conditional[server] = self._access.conditional
        elif not self._access.endpoint:
            _conditional[server] = True
        with errors_translated(place, self._access):
            if _conditional.get(server) is True:
                return self._put_once(place, content)
            if self._there(place):
                return False
            if server not in _conditional:
                return self._put_and_learn(place, content, server)
            self._put(place, content)
            return True

    def _put_and_learn(self, place: ObjectPlace, content: bytes, server: tuple[str, str]) -> bool:
        """Put, then try to put again: a server that lets this happen knows no conditions."""
        from botocore.exceptions import ClientError

        try:
            if not self._put_once(place, content):
                return False
            _conditional[server] = not self._put_once(place, content)
        except ClientError as error:
            if code_of(error) not in UNSUPPORTED:
                raise
            self._put(place, content)
            _conditional[server] = False
        if not _conditional[server]:
            _log.warning(
                "%s does not put objects under a condition: never run two batches of one migration "
                "at the same time that publish files there",
                server_of(self._access),
            )
        return True

    def _put_once(self, place: ObjectPlace, content: bytes) -> bool:
        from botocore.exceptions import ClientError

        mark = secrets.token_hex(8)
        for pause in (*PAUSES, None):
            try:
                self._put(place, content, IfNoneMatch="*", Metadata={MARK: mark})
            except ClientError as error:
                code = code_of(error)
                if code == "ConditionalRequestConflict" and pause is not None:
                    # Another put was under way; it may have failed.
                    time.sleep(pause)
                    continue
                if code not in TAKEN:
                    raise
                # The answer to our own put may have been lost on the way.
                return self._mark_of(place) == mark
            return True
        raise AssertionError

    def _put(self, place: ObjectPlace, content: bytes, **condition: Any) -> None:
        self._client.put_object(
            Bucket=place.bucket, Key=place.key, Body=content, ContentMD5=md5(content), **condition
        )

    def _mark_of(self, place: ObjectPlace) -> str | None:
        from botocore.exceptions import ClientError

        try:
            found = self._client.head_object(Bucket=place.bucket, Key=place.key)
        except ClientError as error:
            if code_of(error) in GONE:
                return None
            raise
        mark: str | None = found.get("Metadata", {}).get(MARK)
        return mark

    def _there(self, place: ObjectPlace) -> bool:
        from botocore.exceptions import ClientError

        try:
            self._client.head_object(Bucket=place.bucket, Key=place.key)
        except ClientError as error:
            if code_of(error) in GONE:
                return False
            raise
        return True

    def read(self, name: str) -> bytes | None:
        """The whole content."""
        place = self._at(name)

        def content() -> bytes:
            answer = self._client.get_object(Bucket=place.bucket, Key=place.key)
            body: bytes = answer["Body"].read()
            return body

        try:
            with errors_translated(place, self._access):
                return patiently(content)
        except FileNotFoundError:
            return None

    def names(self) -> list[str]:
        """Objects right in the folder."""
        prefix = f"{self._place.key}/" if self._place.key else ""
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._place.bucket, Prefix=prefix, Delimiter="/"
        )
        with errors_translated(self._place, self._access):
            keys = [item["Key"] for page in pages for item in page.get("Contents", [])]
        return sorted(name for key in keys if (name := key.removeprefix(prefix)))

    def remove(self, name: str) -> None:
        """Delete."""
        place = self._at(name)
        with suppress(FileNotFoundError), errors_translated(place, self._access):
            self._client.delete_object(Bucket=place.bucket, Key=place.key)

    def path(self, name: str) -> str:
        """The URL."""
        return f"{self.root}/{name}"

    def _at(self, name: str) -> ObjectPlace:
        folder = self._place
        key = f"{folder.key}/{name}" if folder.key else name
        return ObjectPlace(folder.scheme, folder.connection, folder.bucket, key)


class Upload(io.RawIOBase):
    """A stream whose bytes become one object."""

    def __init__(self, client: Any, place: ObjectPlace, access: Access) -> None:
        self._client = client
        self._place = place
        self._access = access
        self._target = {"Bucket": place.bucket, "Key": place.key}
        self._kind = content_type(place.key)
        self._held = bytearray()
        self._id: str | None = None
        self._parts: list[dict[str, Any]] = []
        self._size = 0

    def writable(self) -> bool:
        """It is there to be written."""
        return True

    def write(self, data: ReadableBuffer) -> int:
        """Take bytes; whole parts are sent."""
        view = memoryview(data).cast("B")
        self._held += view
        self._size += view.nbytes
        while len(self._held) >= (size := PART << (len(self._parts) // 1000)):
            self._send(bytes(self._held[:size]))
            del self._held[:size]
        return view.nbytes

    def _send(self, part: bytes) -> None:
        with errors_translated(self._place, self._access):
            if self._id is None:
                self._id = self._begin()
            number = len(self._parts) + 1
            answer = self._client.upload_part(
                **self._target,
                UploadId=self._id,
                PartNumber=number,
                Body=part,
                ContentMD5=md5(part),
            )
        self._parts.append({"PartNumber": number, "ETag": answer["ETag"]})

    def _begin(self) -> str:
        upload: str = self._client.create_multipart_upload(**self._target, **self._kind)["UploadId"]
        return upload

    def finish(self) -> None:
        """Let the object appear."""
        if self._id is None:
            with errors_translated(self._place, self._access):
                content = bytes(self._held)
                self._client.put_object(
                    **self._target, **self._kind, Body=content, ContentMD5=md5(content)
                )
            return
        try:
            if self._held:
                self._send(bytes(self._held))
            with errors_translated(self._place, self._access):
                self._complete()
        except BaseException:
            with suppress(Exception):
                self.give_up()
            raise

    def _complete(self) -> None:
        from botocore.exceptions import ClientError

        try:
            self._client.complete_multipart_upload(
                **self._target, UploadId=self._id, MultipartUpload={"Parts": self._parts}
            )
        except ClientError as error:
            # A second try finds no upload where the answer to the first was lost on the way.
            if code_of(error) != "NoSuchUpload":
                raise
            self._check_there(error)

    def _check_there(self, error: Exception) -> None:
        found = self._client.head_object(**self._target)
        if int(found["ContentLength"]) != self._size:
            message = (
                f"{self._place.url} was given up while it was written: does a rule of the bucket "
                "clear unfinished uploads too soon? Run again"
            )
            raise UnavailableError(message, code=Code.STORE_UNREACHABLE) from error

    def give_up(self) -> None:
        """Take back what was sent."""
        self._held.clear()
        upload, self._id = self._id, None
        if upload is not None:
            self._client.abort_multipart_upload(**self._target, UploadId=upload)


def content_type(key: str) -> dict[str, str]:
    """What a browser that is given an object takes it for; nothing where its name does not tell."""
    kind, packing = MimeTypes().guess_type(key)
    return {} if kind is None or packing is not None else {"ContentType": kind}


def md5(content: bytes) -> str:
    """A content's sum as the protocol wants it."""
    digest = hashlib.md5(content, usedforsecurity=False).digest()
    return base64.b64encode(digest).decode()
