"""Great Expectations' own site, Data Docs, built from the validation results that the lake keeps.

A batch adds its pages. What the index says of the others stands in a file beside them, so that they
are neither read nor made again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.errors import Code, ConfigurationError
from waybill.validate.great_expectations_context import in_memory
from waybill.validate.results import read_validations, validation_files

if TYPE_CHECKING:
    from waybill.spec.migration import Migration

STATE = "waybill-site.json"
"""What the site holds already: for every verdict its validation results without their
expectations."""


class Built(NamedTuple):
    """What was done.

    Attributes:
        page: the page to begin with.
        added: how many verdicts of the gate were added.
        verdicts: how many the site has.
        failed: what Great Expectations could not make a page of, as suite and batch: it says so in
            its log alone, e.g. of an expectation that is not installed here.
    """

    page: Path
    added: int
    verdicts: int
    failed: list[str]


def build_site(spec: Migration, folder: Path) -> Built:
    """Build the site, or add to it what the gate has said since.

    Args:
        spec: the migration.
        folder: where the pages are written; empty, or the site of this migration.

    Raises:
        ConfigurationError: the folder holds something else, or the gate has judged nothing yet.
    """
    known = _known(spec, folder)
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
    index, failed = folder / "index.html", []
    if new or not index.exists():
        folder.mkdir(parents=True, exist_ok=True)
        failed = _build(spec, folder, known, new)
        known |= {name: [_short(result) for result in results] for name, results in new.items()}
        _keep(spec, folder, known)
    return Built(index, len(new), len(known), failed)


def _known(spec: Migration, folder: Path) -> dict[str, list[dict[str, Any]]]:
    """What the site holds, as its own file says."""
    file = folder / STATE
    if not file.exists():
        # Pages without it are those of a build that was ended; it is done again.
        strange = [
            path.name
            for path in (folder.iterdir() if folder.is_dir() else [])
            if path.name not in {"index.html", "static", "validations"}
        ]
        if strange:
            message = f"{folder} holds {strange[0]} and is no site of Waybill: name a new folder"
            raise ConfigurationError(message, code=Code.OPTION)
        return {}
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        migration, verdicts = data["migration"], data["verdicts"]
    except (ValueError, KeyError, TypeError) as error:
        message = f"{file} cannot be read ({error}): delete the folder, it is built again"
        raise ConfigurationError(message, code=Code.OPTION) from error
    if migration != spec.name:
        message = f"{folder} is the site of {migration}, not of {spec.name}: name another folder"
        raise ConfigurationError(message, code=Code.OPTION)
    found: dict[str, list[dict[str, Any]]] = verdicts
    return found


def _keep(spec: Migration, folder: Path, known: dict[str, list[dict[str, Any]]]) -> None:
    from waybill.storage.file_store import open_store

    content = json.dumps({"migration": spec.name, "verdicts": known}, ensure_ascii=False)
    with open_store(str(folder)).write(STATE) as stream:
        stream.write(content.encode())


def _short(result: dict[str, Any]) -> dict[str, Any]:
    """A validation result as the index needs it."""
    return {**result, "results": []}


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
        if not (folder / "validations" / f"{path}.html").exists()
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
