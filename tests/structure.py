"""What the project's layout promises, as functions over a tree of files.

Each rule takes the root of a tree and returns one sentence for every place that breaks it, so that
the same rule runs over the project and over small trees planted with a violation.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from tests.source_modules import Import, Module, modules

MAX_LINES = 500

FAMILY_DECLARATION = re.compile(r"waybill\.envelopes\.[\w.]+\.declaration")
NAMED_FILES = {
    "decoder": r"\.decoder$",
    "encoder": r"\.encoder$",
    "bulk_reader": r"\.bulk(\.reading)?$",
    "bulk_writer": r"\.bulk(\.writing)?$",
}
"""Where a declaration finds what it names."""
BESIDE_PACKAGE = re.compile(r"^(bulk|decoder|encoder|values)_")

STAGES = ("sources", "envelopes", "convert", "merge", "validate", "publish")
# The stage `convert` is what runs the envelopes in Spark, and the gate reads what they wrote again.
STAGE_MAY_USE = {"convert": {"envelopes"}, "validate": {"envelopes"}}

FLOORS = (
    ("cli",),
    ("driver",),
    ("jobs",),
    ("verify",),
    ("bootstrap", "inprocess", "overview", "upkeep"),
    STAGES[:1] + STAGES[2:],
    ("stage_context",),
    ("lake",),
    ("batches", "spec"),
    ("envelopes",),
    ("avro",),
    ("values",),
    ("bulk",),
    ("mapping", "protocol", "row_times"),
    ("kafka", "records", "sequence_layout", "storage"),
    ("connections", "order", "report", "spark_tasks", "tables"),
    (
        "caches",
        "counting",
        "errors",
        "full_load",
        "lake_columns",
        "made_ids",
        "name_patterns",
        "suggestions",
        "types",
    ),
)
"""The packages and modules of the library from top to bottom; each may import what is below it."""

HEAVY = ("airflow", "boto3", "great_expectations", "numba", "pandas", "pyarrow", "pyspark")
"""Packages that take long to import or are needed by few."""

ARROW_SEATS = ("waybill.batches",)
"""Where batches of messages are turned; loaded when there is a batch to turn."""

SCHEMA_REGISTRY = "waybill.avro.registry"
"""Where schema registries are asked; most conversions need none."""

ICEBERG_WORDS = re.compile(
    r"\bCALL\s+\S+\.system\.|\bVERSION\s+AS\s+OF\b|\b(CREATE|DROP|REPLACE)\s+(OR\s+REPLACE\s+)?(BRANCH|TAG)\b"
    r"|\bfast_forward\b|\bexpire_snapshots\b|\brewrite_(data_files|manifests)\b|\bremove_orphan_files\b"
    r"|\bsnapshot-property\b|\b(start|end)-snapshot-id\b|\borg\.apache\.iceberg\b",
    re.IGNORECASE,
)
REGISTRY_HOST = re.compile(
    r"\b(pypi|pythonhosted|maven|npmjs|crates|debian|golang)\.(org|io|com)\b|\brepo1?\.maven\b"
)
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]+)")
MACHINE_PATH = re.compile(r"(?<![\w.$})-])/(work|root|home|Users)/[\w.]|\.\./shared\b")
NOT_PRODUCT = {
    *(
        ".git",
        ".venv",
        ".waybill",
        ".bench",
        "jars",
        "dist",
        "build",
        "node_modules",
        "__pycache__",
    ),
    *(".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".idea", ".vscode"),
}


def _offences(
    root: Path, applies: Callable[[Module], bool], bad: Callable[[Module, Import], bool], why: str
) -> list[str]:
    return [
        f"{module.path}:{found.line} imports {found.name}: {why}"
        for module in modules(root)
        if applies(module)
        for found in module.imports
        if bad(module, found)
    ]


def layers(root: Path) -> list[str]:
    """Imports go one way: dags, then waybill_airflow, then waybill."""
    return [
        *_offences(
            root,
            lambda module: module.path.parts[0] == "spark_jobs",
            lambda _, found: found.of("airflow", "waybill_airflow", "waybill_plugin", "dags"),
            "the library and its entry scripts know nothing of Airflow",
        ),
        *_offences(
            root,
            lambda module: module.path.parts[0] == "plugins",
            lambda _, found: found.of("dags"),
            "the adapter does not know the DAG files",
        ),
        *_offences(
            root,
            lambda module: module.path.parts[0] == "dags",
            lambda _, found: found.of("waybill", *(set(HEAVY) - {"airflow"})),
            "a DAG file calls the adapter and holds no logic",
        ),
    ]


def stages(root: Path) -> list[str]:
    """The stages know neither each other nor what joins them."""

    def stage_of(name: str) -> str:
        parts = name.split(".")
        return parts[1] if len(parts) > 1 and parts[0] == "waybill" and parts[1] in STAGES else ""

    def crosses(module: Module, found: Import) -> bool:
        own, other = stage_of(module.name), stage_of(found.name)
        if not own:
            return False
        if found.of("waybill.jobs", "waybill.cli"):
            return True
        return bool(other) and other != own and other not in STAGE_MAY_USE.get(own, set())

    return _offences(
        root,
        lambda module: bool(stage_of(module.name)),
        crosses,
        "stages meet only in waybill.jobs; what two of them need belongs into a shared module",
    )


def floors(root: Path) -> list[str]:
    """Every package has its floor, and imports only what is on a lower one."""
    floor_of = {name: number for number, floor in enumerate(FLOORS) for name in floor}
    found = []
    for module in modules(root):
        own = _room(module.name)
        if own and own not in floor_of:
            found.append(f"{module.path} stands on no floor: put {own!r} into FLOORS")
            continue
        for used in module.imports if own else ():
            other = _room(used.name)
            # `from waybill import __version__` names no room.
            if other != own and floor_of.get(other, len(FLOORS)) <= floor_of[own]:
                found.append(
                    f"{module.path}:{used.line} imports {used.name}: {other} is not below {own}"
                )
    return found


def _room(name: str) -> str:
    """The package or module of the library that a name lies in, empty for others."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[0] == "waybill" else ""


def circles(root: Path) -> list[str]:
    """No modules import each other, not even for their types or inside functions."""
    known = {module.name: module for module in modules(root)}
    graph = {
        name: {_module_of(used.name, known) for used in module.imports} - {name, ""}
        for name, module in known.items()
    }
    # Whatever imports nothing of what is left, or is imported by nothing of it, is in no circle.
    left = dict(graph)
    while True:
        imported = set().union(*(uses & left.keys() for uses in left.values()), set())
        ends = [
            name for name, uses in left.items() if not uses & left.keys() or name not in imported
        ]
        if not ends:
            return [
                f"{known[name].path} is in a circle with {', '.join(sorted(uses & left.keys()))}"
                for name, uses in sorted(left.items())
            ]
        for name in ends:
            del left[name]


def _module_of(name: str, known: Collection[str]) -> str:
    """The module that an imported name is or lies in, empty for one of others."""
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name


def engines(root: Path) -> list[str]:
    """Iceberg, Kafka, Great Expectations, Spark and Airflow are each known in one place."""
    kafka = ("confluent_kafka", "kafka", "aiokafka")
    found = [
        *_offences(
            root,
            lambda module: not module.inside("waybill.validate"),
            lambda _, found: found.of("great_expectations"),
            "only waybill.validate knows Great Expectations",
        ),
        *_offences(
            root,
            lambda module: module.inside("waybill.envelopes", "waybill.merge.rules"),
            lambda _, found: found.of("pyspark", "airflow"),
            "envelopes and the rules of the merge are plain Python",
        ),
        *_offences(
            root,
            lambda module: not module.inside("waybill.lake"),
            lambda _, found: found.of("pyiceberg"),
            "only waybill.lake knows Iceberg",
        ),
        *_offences(
            root,
            lambda module: (
                not module.inside(
                    "waybill.kafka",
                    "waybill.sources.kafka",
                    "waybill.publish.kafka",
                    SCHEMA_REGISTRY,
                )
            ),
            lambda _, found: found.of(*kafka),
            "only waybill.kafka, waybill.sources.kafka and waybill.publish.kafka know Kafka",
        ),
        *_offences(
            root,
            lambda module: module.inside(SCHEMA_REGISTRY),
            lambda _, found: (
                found.of(*kafka)
                and not (found.of("confluent_kafka.schema_registry") and found.when == "call")
            ),
            "of Kafka the schemas' room knows the schema registry's client, where it is called",
        ),
        *_offences(
            root,
            lambda _: True,
            lambda module, found: (
                found.of("boto3", "botocore")
                and not (module.inside("waybill.storage.objects") and found.when != "load")
            ),
            "only waybill.storage.objects knows boto3, and where it is called: most runs need none",
        ),
    ]
    for module in modules(root):
        if not module.inside("waybill.lake"):
            found += [
                f"{module.path}:{line} says {text!r} to Iceberg: only waybill.lake knows Iceberg"
                for line, text in _iceberg_words(module)
            ]
    return found


def _iceberg_words(module: Module) -> Iterator[tuple[int, str]]:
    """What a module says to Iceberg in its strings; docstrings only talk about it."""
    nodes = list(ast.walk(module.tree))
    spoken = {
        id(node.body[0].value)
        for node in nodes
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in nodes:
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in spoken
        ):
            match = ICEBERG_WORDS.search(node.value)
            if match:
                yield node.lineno, match[0]


def light(root: Path) -> list[str]:
    """What the command line and the DAG files load has no heavy import of its own at load time."""
    names = (
        *("cli", "spec", "storage", "records", "order", "errors", "report"),
        *("envelopes", "batches", "avro", "values", "merge.rules"),
    )
    return _offences(
        root,
        lambda module: module.inside(*(f"waybill.{name}" for name in names)),
        lambda module, found: (
            found.of(*HEAVY)
            and found.when == "load"
            and not (found.of("pyarrow") and module.inside(*ARROW_SEATS))
        ),
        "import it inside the function that needs it",
    )


def sizes_and_names(root: Path) -> list[str]:
    """No file is too long to read, none is a drawer for everything, each says what it is."""
    found = []
    for module in modules(root):
        lines = module.text.count("\n")
        if lines > MAX_LINES:
            found.append(f"{module.path} has {lines} lines: split it, {MAX_LINES} is the most")
        if not (ast.get_docstring(module.tree) or "").strip():
            found.append(f"{module.path} has no docstring: say what it is for")
        if re.search(r"(^|[._])utils?($|[._])", module.name):
            found.append(f"{module.path} is named utils: name it after what it does")
    return found


def families(root: Path) -> list[str]:
    """Who knows the files of one family of envelopes knows those of all."""
    found = []
    known = {module.name: module for module in modules(root)}
    declared = [name.rpartition(".")[0] for name in known if FAMILY_DECLARATION.fullmatch(name)]
    for family in declared:
        module = known[f"{family}.declaration"]
        for file in ("decoder", "encoder"):
            if f"{family}.{file}" not in known:
                found.append(f"{module.path} has no {file}.py beside it")
        for file in ("bulk", "values"):
            if not any(f"{folder}.{file}" in known for folder in _folders_to(family)):
                found.append(f"{module.path} has no {file}.py or {file}/ beside it or above it")
        for field, line, place in _named(module):
            if not re.search(NAMED_FILES.get(field, ""), place.partition(":")[0]):
                found.append(f"{module.path}:{line} names a {field} in {place}: move it")
    rooms = {".".join(family.split(".")[:3]) for family in declared}
    for module in known.values():
        if module.inside(*rooms):
            found += _misplaced(module)
    return found


def _misplaced(module: Module) -> Iterator[str]:
    """What is in another file of a family than in all others."""
    file = module.name.rpartition(".")[2]
    for node in module.tree.body if file != "settings" else ():
        if isinstance(node, ast.ClassDef) and node.name.endswith("Settings"):
            yield f"{module.path}:{node.lineno} has {node.name}: put it into settings.py"
    if BESIDE_PACKAGE.search(file):
        yield f"{module.path} is a part of what is one file or package in all families"


def _folders_to(family: str) -> Iterator[str]:
    """A family's folder and those above it, as far as they are families' own."""
    while family not in ("waybill.envelopes", ""):
        yield family
        family = family.rpartition(".")[0]


def _named(module: Module) -> Iterator[tuple[str, int, str]]:
    """What a declaration names by its dotted path: the field, the line and the path."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.keyword) and isinstance(node.value, ast.Call) and node.value.args:
            first = node.value.args[0]
            if getattr(node.value.func, "id", "") == "Named" and isinstance(first, ast.Constant):
                yield node.arg or "", node.value.lineno, str(first.value)


def text(root: Path) -> list[str]:
    """No file names a package registry's host or a path of the machine it was written on."""
    found = []
    for path in sorted(_files(root)):
        content = path.read_bytes()
        if b"\0" in content:
            continue
        whole = content.decode("utf-8", "replace")
        # Neither goes over the end of a line, so hardly a file is searched line by line.
        if not (REGISTRY_HOST.search(whole) or MACHINE_PATH.search(whole)):
            continue
        for number, line in enumerate(whole.splitlines(), start=1):
            match = REGISTRY_HOST.search(line) or MACHINE_PATH.search(line)
            if match:
                found.append(f"{path.relative_to(root)}:{number} names {match[0]!r}")
    return found


def links(root: Path) -> list[str]:
    """Every link of a page to another file leads to one."""
    found = []
    for path in sorted(_files(root)):
        if path.suffix != ".md":
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            for target in LINK.findall(line):
                if not (path.parent / target).exists():
                    found.append(f"{path.relative_to(root)}:{number} links to {target!r}")
    return found


def _files(folder: Path) -> Iterator[Path]:
    for entry in folder.iterdir():
        if entry.name in NOT_PRODUCT or entry.is_symlink():
            continue
        if entry.is_dir():
            yield from _files(entry)
        elif entry.suffix not in {".parquet", ".pyc", ".png"}:
            yield entry


RULES: tuple[Callable[[Path], list[str]], ...] = (
    layers,
    stages,
    floors,
    circles,
    engines,
    light,
    sizes_and_names,
    families,
    text,
    links,
)


def main() -> int:
    """Print what breaks the rules; the number for the shell is 1 if anything does."""
    root = Path(__file__).resolve().parent.parent
    found = [sentence for rule in RULES for sentence in rule(root)]
    text = "\n".join(found) or f"no findings in {len(modules(root))} modules"
    sys.stdout.write(f"{text}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
