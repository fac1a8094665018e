"""Great Expectations' own site, Data Docs, built from the validation results that the lake keeps.

A batch adds its pages. What the index says of the others stands in a file beside them, so that they
are neither read nor made again. A site in object storage is built here and sent there, what is new
of it: whoever serves the bucket serves the pages.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.errors import Code, ConfigurationError
from waybill.storage.file_store import LocalStore, open_store
from waybill.storage.open import open_storage
from waybill.validate.great_expectations_context import in_memory
from waybill.validate.results import read_validations, validation_files

if TYPE_CHECKING:
    from waybill.spec.migration import Migration
    from waybill.storage.file_store import Store

INDEX, PAGES, STATIC = "index.html", "validations", "static"
"""The page to begin with, the folder of the others, and that of what all pages share."""

SENT_AT_ONCE = 8

STATE = "waybill-site.json"
"""What the site holds already: for every verdict its validation results without their
expectations."""


class Built(NamedTuple):
    """What was done.

    Attributes:
        page: path or URL of the page to begin with.
        added: how many verdicts of the gate were added.
        verdicts: how many the site has.
        failed: what Great Expectations could not make a page of, as suite and batch: it says so in
            its log alone, e.g. of an expectation that is not installed here.
    """

    page: str
    added: int
    verdicts: int
    failed: list[str]


def build_site(spec: Migration, place: str) -> Built:
    """Build the site, or add to it what the gate has said since.

    Args:
        spec: the migration.
        place: folder or URL where the pages are written; empty, or the site of this migration.

    Raises:
        ConfigurationError: the place holds something else, or cannot be written to, or the gate has
            judged nothing yet.
        UnavailableError: the store of the lake or of the site does not answer.
    """
    site = open_store(place)
    if isinstance(site, LocalStore) and Path(site.root).is_file():
        message = f"{site.root} is a file: name a folder for the site"
        raise ConfigurationError(message, code=Code.OPTION)
    known = _known(spec, site)
    new = {}
    for name in validation_files(spec):
        if name not in known:
            found = read_validations(spec, name)
            if found is not None:
                new[name] = found
    if not known and not new:
        first = spec.command("run", "FILE")
        message = f"the gate has judged no batch of {spec.name} yet: run it first, `{first}`"
        raise ConfigurationError(message, code=Code.OPTION)
    failed: list[str] = []
    if new or INDEX not in site.names():
        failed = _write(spec, site, known, new)
        known |= {name: [_short(result) for result in results] for name, results in new.items()}
        _keep(spec, site, known)
    return Built(site.path(INDEX), len(new), len(known), failed)


def _known(spec: Migration, site: Store) -> dict[str, list[dict[str, Any]]]:
    """What the site holds, as its own file says."""
    content = site.read(STATE)
    if content is None:
        # Pages without it are those of a build that was ended; it is done again.
        strange = [name for name in _names(site) if name not in {INDEX, PAGES, STATIC}]
        if strange:
            message = (
                f"{site.root} holds {strange[0]} and is not a site of Waybill: name a new folder"
            )
            raise ConfigurationError(message, code=Code.OPTION)
        return {}
    try:
        data = json.loads(content)
        migration, verdicts = data["migration"], data["verdicts"]
    except (ValueError, KeyError, TypeError) as error:
        file = site.path(STATE)
        message = f"{file} cannot be read ({error}): delete the folder, it is built again"
        raise ConfigurationError(message, code=Code.OPTION) from error
    if migration != spec.name:
        message = f"{site.root} is the site of {migration}, not of {spec.name}: name another folder"
        raise ConfigurationError(message, code=Code.OPTION)
    found: dict[str, list[dict[str, Any]]] = verdicts
    return found


def _names(site: Store) -> list[str]:
    """What is right in a place; of a folder of this machine also folders."""
    if isinstance(site, LocalStore) and Path(site.root).is_dir():
        return sorted(path.name for path in Path(site.root).iterdir())
    return site.names()


def _keep(spec: Migration, site: Store, known: dict[str, list[dict[str, Any]]]) -> None:
    content = json.dumps({"migration": spec.name, "verdicts": known}, ensure_ascii=False)
    with site.write(STATE) as stream:
        stream.write(content.encode())


def _short(result: dict[str, Any]) -> dict[str, Any]:
    """A validation result as the index needs it."""
    return {**result, "results": []}


def _write(
    spec: Migration,
    site: Store,
    known: dict[str, list[dict[str, Any]]],
    new: dict[str, list[dict[str, Any]]],
) -> list[str]:
    """Write the pages to where they belong; returns what no page could be made of."""
    if isinstance(site, LocalStore):
        folder = Path(site.root)
        folder.mkdir(parents=True, exist_ok=True)
        return _build(spec, folder, known, new)
    with TemporaryDirectory(prefix="waybill-site-") as made:
        _stand_in(Path(made), site)
        failed = _build(spec, Path(made), known, new)
        _send(Path(made), site, whole=not known)
    return failed


def _stand_in(made: Path, site: Store) -> None:
    """Put an empty file for each page that is there: the index names the pages that it finds."""
    system, folder = open_storage(f"{site.root.rstrip('/')}/{PAGES}")
    for page in system.find(folder):
        file = made / PAGES / page.removeprefix(folder).lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()


def _send(made: Path, site: Store, whole: bool) -> None:
    """Send what was made, the index last: it leads to the others.

    Args:
        made: the folder of it.
        site: where to.
        whole: whether what all pages share goes along; a site that was sent before has it.
    """
    found = (file for file in made.rglob("*") if file.is_file() and file.stat().st_size)
    files = [file.relative_to(made) for file in found]
    pages = [file for file in files if str(file) != INDEX and (whole or file.parts[0] != STATIC)]
    folder = cache(open_store)

    def send(file: Path) -> None:
        parts = [site.root.rstrip("/"), *file.parts[:-1]]
        with folder("/".join(parts)).write(file.name) as stream:
            stream.write((made / file).read_bytes())

    with ThreadPoolExecutor(SENT_AT_ONCE) as pool:
        list(pool.map(send, pages))
    send(Path(INDEX))


def _build(
    spec: Migration,
    folder: Path,
    known: dict[str, list[dict[str, Any]]],
    new: dict[str, list[dict[str, Any]]],
) -> list[str]:
    """Write the pages; returns what no page could be made of."""
    site = {
        "class_name": "SiteBuilder",
        "show_how_to_buttons": False,
        "store_backend": {
            "class_name": "TupleFilesystemStoreBackend",
            "base_directory": str(folder.absolute()),
        },
        "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
        # Suites are files that people keep where they like; results name what they expect.
        "site_section_builders": {"expectations": "None", "profiling": "None"},
    }
    with in_memory() as context:
        context.add_data_docs_site(site_name=spec.name, site_config=site)
        store = context.validation_results_store
        for results in known.values():
            for result in results:
                _put(store, result)
        added = [_put(store, result) for results in new.values() for result in results]
        context.build_data_docs(
            site_names=[spec.name], resource_identifiers=added if known else None
        )
    paths = {"/".join(key.to_tuple()): key for key in added}
    return [
        f"{key.expectation_suite_identifier.name} of batch {key.run_id.run_name}"
        for path, key in paths.items()
        if not (folder / PAGES / f"{path}.html").exists()
    ]


def _put(store: Any, result: dict[str, Any]) -> Any:
    """Put a result into a store of Great Expectations; returns its key."""
    from great_expectations.core.expectation_validation_result import (
        ExpectationSuiteValidationResult,
        ExpectationValidationResult,
    )
    from great_expectations.core.run_identifier import RunIdentifier
    from great_expectations.data_context.types.resource_identifiers import (
        ExpectationSuiteIdentifier,
        ValidationResultIdentifier,
    )
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    run = result["meta"]["run_id"]
    key = ValidationResultIdentifier(
        ExpectationSuiteIdentifier(name=result["suite_name"]),
        RunIdentifier(run_name=run["run_name"], run_time=run["run_time"]),
        "rows",
    )
    results = [
        ExpectationValidationResult(
            **{
                **one,
                "expectation_config": ExpectationConfiguration(**one["expectation_config"]),
            }
        )
        for one in result["results"]
    ]
    store.set(key, ExpectationSuiteValidationResult(**{**result, "results": results}))
    return key
