"""The library as one zip, as Spark's workers take it."""

from __future__ import annotations

import hashlib
import os
import tempfile
import zipfile
from pathlib import Path

_DATE = (1980, 1, 1, 0, 0, 0)


def library_zip(cache: Path, source: Path | None = None) -> Path:
    """A zip of the library in `cache`, named by its content and built once for that content.

    Equal content gives an equal file, so that a running job keeps the zip it was started with while
    a newer library gets a zip of its own.

    Args:
        cache: folder of the zips, made where it is missing.
        source: the package's folder; the one that this process would import where left out.
    """
    package = source or _package()
    files = [
        (path.relative_to(package.parent).as_posix(), path.read_bytes())
        for path in sorted(package.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    ]
    # In a checkout the product's suites lie beside the library; an installed one holds them.
    suites = package.parents[1] / "expectations" / "suites"
    files += [(f"waybill/validate/suites/{p.name}", p.read_bytes()) for p in _json_in(suites)]
    digest = hashlib.sha256()
    for name, content in files:
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    target = cache / f"waybill-{digest.hexdigest()[:16]}.zip"
    if not target.is_file():
        cache.mkdir(parents=True, exist_ok=True)
        _write(files, target)
    return target


def _package() -> Path:
    import waybill

    return Path(waybill.__file__).parent


def _json_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.json"))


def _write(files: list[tuple[str, bytes]], target: Path) -> None:
    # Put in place by one rename: another task may be looking for the same zip.
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".waybill-", suffix=".zip")
    try:
        with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w") as archive:
            for path, content in files:
                info = zipfile.ZipInfo(path, _DATE)
                info.compress_type = zipfile.ZIP_DEFLATED
                info.external_attr = 0o644 << 16
                archive.writestr(info, content)
        Path(name).chmod(0o644)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
