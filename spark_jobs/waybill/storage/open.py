"""Files on a local disk or in object storage, by path or URL."""

from __future__ import annotations

from typing import Any

from waybill.errors import Code, ConfigurationError
from waybill.storage.objects.places import is_object_url

_LOCAL = ("file://", "local://")


def open_storage(path: str) -> tuple[Any, str]:
    """The file system (fsspec's interface) of a path or URL, and the path as it takes it.

    Raises:
        ConfigurationError: the scheme of the URL is not known, or needs a package that is not
            installed.
    """
    if is_object_url(path):
        from waybill.storage.objects.reading import open_objects

        return open_objects(path)
    if "://" not in path or path.startswith(_LOCAL):
        from waybill.storage.local import LocalFiles

        # Not by `url_to_fs`, which takes `::` in a name for a chain of URLs.
        local = LocalFiles()
        return local, local._strip_protocol(path)
    import fsspec

    try:
        # Listings are not cached: another run may have written since.
        return fsspec.core.url_to_fs(path, use_listings_cache=False)  # type: ignore[no-any-return]
    except TypeError:
        return fsspec.core.url_to_fs(path)  # type: ignore[no-any-return]
    except (ImportError, ValueError) as error:
        scheme = path.split("://", 1)[0]
        message = (
            f"{scheme}:// cannot be opened here ({error}); name a path that this machine knows"
        )
        raise ConfigurationError(message, code=Code.STORE_ADDRESS) from error
