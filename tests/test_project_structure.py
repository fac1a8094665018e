"""Guards for what no test of behaviour would notice: pins, import directions, load times, text."""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests import source_modules, structure

PROJECT = Path(__file__).resolve().parent.parent
PHASES = {
    "unit",
    "contract",
    "golden",
    "property",
    "hostile",
    "spark",
    "kafka",
    "s3",
    "verify",
    "dags",
    "e2e",
    "browser",
    "killed",
    "consumers",
    "stack",
}
PIN = re.compile(r"^([A-Za-z0-9][\w.-]*)(?:\[[^]]*\])?==([^\s;\\]+)", re.MULTILINE)


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(text: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name, version in PIN.findall(text):
        found.setdefault(normal(name), set()).add(version)
    return found


def disagreements(first: str, second: str) -> list[str]:
    """Packages that two lock files pin differently."""
    one, other = pins(first), pins(second)
    return sorted(name for name in one.keys() & other.keys() if one[name] != other[name])


def read(name: str) -> str:
    return (PROJECT / name).read_text(encoding="utf-8")


# The project itself


@pytest.mark.parametrize("rule", structure.RULES, ids=lambda rule: rule.__name__)
def test_the_project_keeps(rule):
    assert rule(PROJECT) == []


def test_every_test_file_belongs_to_a_phase():
    """`make test` runs folders by name, so a test elsewhere would never run."""
    tests = (path.relative_to(PROJECT / "tests") for path in (PROJECT / "tests").rglob("test_*.py"))
    strays = [str(path) for path in tests if path.parts[0] not in PHASES]
    assert strays == ["test_project_structure.py"]


def test_pyspark_and_its_client_are_one_version():
    """They share files, and pip does not notice a mix."""
    import pyspark

    versions = {importlib.metadata.version(name) for name in ("pyspark", "pyspark-client")}
    assert versions == {pyspark.__version__}


def test_the_locks_agree():
    runtime = read("requirements.txt")
    assert pins(runtime)
    assert disagreements(runtime, read("requirements-dev.txt")) == []
    executors = read("requirements-executors.txt")
    assert disagreements(runtime, executors) == []
    assert pins(executors).keys() <= pins(runtime).keys()


@pytest.mark.parametrize("lock", ["requirements.txt", "requirements-dev.txt"])
def test_the_environment_is_the_lock(lock):
    for name, versions in pins(read(lock)).items():
        try:
            installed = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # for another platform or Python
        assert installed in versions, (
            f"{name} is {installed}, the lock says {versions}: run make setup"
        )


def test_every_direct_dependency_is_locked():
    project = tomllib.loads(read("pyproject.toml"))
    for declared, lock in (
        (project["project"]["dependencies"], "requirements.txt"),
        (project["dependency-groups"]["dev"], "requirements-dev.txt"),
        (project["dependency-groups"]["bench"], "requirements-dev.txt"),
        (project["dependency-groups"]["executors"], "requirements-executors.txt"),
    ):
        locked = pins(read(lock))
        names = {normal(re.match(r"[\w.-]+", entry)[0]) for entry in declared}
        assert names - locked.keys() == set()
        for name, versions in pins("\n".join(declared)).items():
            assert locked[name] == versions


def test_every_locked_package_and_jar_has_a_sum():
    for lock in ("requirements.txt", "requirements-dev.txt", "requirements-executors.txt"):
        for entry in re.split(r"\n(?=[a-zA-Z0-9])", read(lock)):
            assert "--hash=sha256:" in entry, entry
    further = [
        str(path)
        for room in ("stack", "tests/consumers")
        for path in (PROJECT / room).glob("*.lock")
    ]
    for lock in ("jars.lock", "jars-s3.lock", *further):
        lines = [line for line in read(lock).splitlines() if not line.startswith(("#", "from "))]
        assert lines
        for line in lines:
            assert re.search(r" sha256:[0-9a-f]{64}$", line), line


def test_files_of_others_are_the_locked_ones():
    room = PROJECT / "tests" / "browser"
    lines = [line for line in read("tests/browser/axe.lock").splitlines() if line[0] != "#"]
    locked = {name: sum for _, name, sum in (line.split() for line in lines)}
    found = {
        path.relative_to(room).as_posix(): f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
        for path in (room / "axe").iterdir()
    }
    assert found == locked
    version = lines[0].split()[0].removeprefix("axe-core:")
    assert f"axe v{version}\n" in (room / "axe" / "axe.min.js").read_text(encoding="utf-8")[:100]


def test_iceberg_is_built_for_this_spark():
    spark = ".".join(importlib.metadata.version("pyspark").split(".")[:2])
    runtime = re.search(rf"iceberg-spark-runtime-{spark}_[\d.]+:(\S+)", read("jars.lock"))
    assert runtime
    assert f"iceberg-aws-bundle:{runtime[1]} " in read("jars-s3.lock")


# What loading costs


def loaded_by(statement: str, home: Path) -> set[str]:
    """The heavy packages that a fresh interpreter has loaded after the statement."""
    code = (
        f"{statement}\nimport sys\n"
        f"print('loaded:', *(name for name in {structure.HEAVY!r} if name in sys.modules))"
    )
    folders = [str(PROJECT / folder) for folder in ("plugins", "spark_jobs")]
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "AIRFLOW_HOME": str(home), "PYTHONPATH": os.pathsep.join(folders)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if line.startswith("loaded:"))
    return set(line.split()[1:])


def adapter_modules_of_the_dags() -> list[str]:
    imported = {
        found.name
        for module in source_modules.modules(PROJECT)
        if module.path.parts[0] == "dags"
        for found in module.imports
        if found.of("waybill_airflow")
    }
    if (PROJECT / "plugins/waybill_airflow/factory.py").is_file():
        imported.add("waybill_airflow.factory")
    return sorted(imported)


def test_heavy_packages_are_noticed(tmp_path):
    assert loaded_by("import pyarrow", tmp_path) == {"pyarrow"}


def test_parsing_a_dag_file_loads_nothing_heavy(tmp_path):
    """The DAG processor parses again and again; Spark and the rest belong into the tasks."""
    names = adapter_modules_of_the_dags()
    assert names, "there are no DAG files"
    statements = []
    for name in names:
        module, _, member = name.rpartition(".")
        known = module if module != "waybill_airflow" else name
        statements.append(f"import {known}" if member else f"import {name}")
    assert loaded_by("\n".join(statements), tmp_path) <= {"airflow"}


def test_the_command_line_starts_light(tmp_path):
    loaded = "import waybill.cli.app, waybill.cli.convert, waybill.cli.detect, waybill.cli.show"
    assert loaded_by(loaded, tmp_path) == set()


def test_showing_a_file_loads_nothing_heavy(tmp_path):
    """Also where the envelope has to be found out, which tries all of them."""
    file = PROJECT / "samples/shop/0001-full.jsonl"
    run = f"""
from waybill.cli import main
try:
    main(["show", {str(file)!r}, "--limit", "2"])
except SystemExit as end:
    assert end.code == 0
"""
    assert loaded_by(run, tmp_path) == set()


# The rules notice what they are there for


def plant(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return root


LIBRARY = "spark_jobs/waybill"
VIOLATIONS = [
    (structure.layers, f"{LIBRARY}/spec.py", "import airflow"),
    (structure.layers, f"{LIBRARY}/spec.py", "def f():\n    from airflow.sdk import DAG"),
    (structure.layers, f"{LIBRARY}/jobs.py", "from waybill_airflow import factory"),
    (structure.layers, "spark_jobs/merge_tables.py", "import waybill_airflow.factory"),
    (structure.layers, "plugins/waybill_airflow/factory.py", "from dags import shop"),
    (structure.layers, "dags/shop.py", "from waybill.spec.migration import load"),
    (structure.layers, "dags/shop.py", "import pandas as pd"),
    (structure.stages, f"{LIBRARY}/merge/run.py", "from waybill.envelopes import registry"),
    (structure.stages, f"{LIBRARY}/merge/run.py", "from waybill import envelopes"),
    (structure.stages, f"{LIBRARY}/merge/run.py", "from ..publish import files"),
    (structure.stages, f"{LIBRARY}/merge/__init__.py", "from .. import publish"),
    (structure.stages, f"{LIBRARY}/validate/gate.py", "import waybill.merge.rules"),
    (structure.stages, f"{LIBRARY}/publish/files.py", "from waybill.jobs import run_migration"),
    (structure.stages, f"{LIBRARY}/envelopes/oms.py", "from waybill.convert import batch"),
    (
        structure.stages,
        f"{LIBRARY}/sources/files.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from waybill.merge import rules",
    ),
    (structure.floors, f"{LIBRARY}/records.py", "from waybill.protocol import Encoder"),
    (
        structure.floors,
        f"{LIBRARY}/bulk/forms.py",
        "def f():\n    from waybill.avro import reading",
    ),
    (structure.floors, f"{LIBRARY}/merge/run.py", "from waybill.publish import files"),
    (structure.floors, f"{LIBRARY}/attic/things.py", "x = 1"),
    (structure.engines, f"{LIBRARY}/jobs.py", "import great_expectations as gx"),
    (structure.engines, "plugins/waybill_airflow/web.py", "import great_expectations"),
    (structure.engines, f"{LIBRARY}/envelopes/oms.py", "def f():\n    import pyspark.sql"),
    (structure.engines, f"{LIBRARY}/merge/rules.py", "from pyspark.sql import Row"),
    (structure.engines, f"{LIBRARY}/jobs.py", "from pyiceberg.catalog import load_catalog"),
    (structure.engines, f"{LIBRARY}/jobs.py", "m = __import__('pyiceberg')"),
    (structure.engines, f"{LIBRARY}/sources/files.py", "from confluent_kafka import Consumer"),
    (structure.engines, f"{LIBRARY}/publish/files.py", "import boto3"),
    (structure.engines, f"{LIBRARY}/publish/files.py", "def f():\n    import boto3"),
    (structure.engines, f"{LIBRARY}/storage/objects/client.py", "import botocore.config"),
    (
        structure.engines,
        f"{LIBRARY}/lake/s3.py",
        "try:\n    import boto3\nexcept ImportError:\n    pass",
    ),
    (structure.engines, f"{LIBRARY}/merge/run.py", "q = f'CALL lake.system.fast_forward({1})'"),
    (structure.engines, f"{LIBRARY}/merge/run.py", "q = 'SELECT * FROM t VERSION AS OF 3'"),
    (structure.engines, f"{LIBRARY}/jobs.py", "q = 'ALTER TABLE t CREATE BRANCH b'"),
    (structure.light, f"{LIBRARY}/cli.py", "import pyspark"),
    (structure.light, f"{LIBRARY}/envelopes/oms.py", "class C:\n    import pandas"),
    (structure.sizes_and_names, f"{LIBRARY}/spec.py", "x = 1\n" * 501),
    (structure.sizes_and_names, f"{LIBRARY}/utils.py", "x = 1"),
    (structure.sizes_and_names, f"{LIBRARY}/merge/table_utils.py", "x = 1"),
    (structure.text, "README.md", "see https://" + "pypi" + ".org/simple"),
    (structure.links, "docs/a.md", "see [the order](order.md) and [here](https://example.com/x)"),
    (structure.text, "docs/a.md", "cd " + "/wo" + "rk/main"),
    (structure.text, "dags/shop.py", "PATH = '" + "/ro" + "ot/.cache'"),
    (structure.text, "tests/a.py", "PATH = '" + ".." + "/shared/captures'"),
]


@pytest.mark.parametrize(("rule", "path", "content"), VIOLATIONS)
def test_a_planted_violation_is_found(tmp_path, rule, path, content):
    if path.endswith(".py"):
        content = f'"""Planted."""\n{content}\n'
    offences = rule(plant(tmp_path, {path: content}))
    assert len(offences) == 1
    assert offences[0].startswith(path)


TYPES_ONLY = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import waybill.spec.one"


@pytest.mark.parametrize("back", ["import waybill.spec.one", TYPES_ONLY])
def test_a_circle_is_found_through_a_third_module(tmp_path, back):
    files = {
        "one": "from waybill.spec import two",
        "two": "def f():\n    from waybill.spec.three import x",
        "three": back,
        "beside": "import waybill.spec.one",
    }
    for name, content in files.items():
        plant(tmp_path, {f"{LIBRARY}/spec/{name}.py": f'"""Planted."""\n{content}\n'})
    assert [offence.split()[0] for offence in structure.circles(tmp_path)] == [
        f"{LIBRARY}/spec/{name}.py" for name in ("one", "three", "two")
    ]


FAMILY = {
    "declaration": 'E = Envelope(decoder=Named("waybill.envelopes.a.decoder:D"))',
    **dict.fromkeys(("decoder", "encoder", "values", "bulk/__init__", "bulk/reading"), "x = 1"),
}


@pytest.mark.parametrize(
    ("file", "content", "found"),
    [
        ("values", "x = 1", 0),
        ("settings", "class Settings: pass", 0),
        *((file, None, 1) for file in ("decoder", "encoder", "values", "bulk/__init__")),
        ("values", "class ReadSettings: pass", 1),
        ("bulk_rows", "x = 1", 1),
        ("declaration", 'E = Envelope(decoder=Named("waybill.envelopes.a.choosing:D"))', 1),
        ("declaration", 'E = Envelope(bulk_reader=Named("waybill.envelopes.a.bulk.rows:R"))', 1),
    ],
)
def test_a_family_has_the_files_of_all(tmp_path, file, content, found):
    files = {name: text for name, text in {**FAMILY, file: content}.items() if text is not None}
    for name, text in files.items():
        path = f"{LIBRARY}/envelopes/a/{name}.py"
        plant(tmp_path, {path: f'"""Planted."""\n{text}\n'})
    assert len(structure.families(tmp_path)) == found


def test_the_findings_of_all_rules_are_printed(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(structure, "__file__", str(tmp_path / "tests" / "structure.py"))
    assert structure.main() == 0
    plant(tmp_path, {"docs/a.md": "see [the order](order.md)"})
    assert structure.main() == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed == ["no findings in 0 modules", "docs/a.md:1 links to 'order.md'"]


def test_a_missing_docstring_is_found(tmp_path):
    plant(tmp_path, {f"{LIBRARY}/__init__.py": "", f"{LIBRARY}/spec.py": "x = 1\n"})
    assert len(structure.sizes_and_names(tmp_path)) == 2


def test_what_is_allowed_passes(tmp_path):
    adapter, library = "plugins/waybill_airflow", LIBRARY
    files = {
        "dags/shop.py": "from airflow.sdk import DAG\nfrom waybill_airflow.factory import build",
        f"{adapter}/factory.py": "from airflow.sdk import DAG\nfrom waybill import spec",
        "spark_jobs/merge_tables.py": "from waybill.jobs import run_stage\nimport pyspark",
        f"{library}/jobs.py": "from waybill.merge import run\nfrom waybill.publish import files",
        f"{library}/lake/branch.py": "import pyiceberg\nq = 'CALL lake.system.fast_forward()'",
        f"{library}/storage/objects/client.py": "def client():\n    import boto3",
        f"{library}/merge/run.py": "from pyspark.sql import Row\nfrom waybill.merge import rules",
        f"{library}/merge/rules.py": "from waybill.order import key\nfrom waybill import records",
        f"{library}/merge/talk.py": "def f():\n    'Ends in a fast_forward.'",
        f"{library}/validate/gate.py": "def f():\n    import great_expectations",
        f"{library}/convert.py": "from waybill.envelopes import registry\nimport pyarrow",
        f"{library}/batches/decoding.py": "import pyarrow",
        f"{library}/envelopes/oms.py": "def batch():\n    import pyarrow",
        "README.md": "Put it into /opt/waybill or work/root/here, see shared/x and ${HOME}/x.",
    }
    for path, content in files.items():
        planted = f'"""Allowed."""\n{content}\n' if path.endswith(".py") else content
        plant(tmp_path, {path: planted})
    assert [offence for rule in structure.RULES for offence in rule(tmp_path)] == []


def test_two_versions_of_one_package_are_found():
    first = "a==1 \\\n    --hash=sha256:00\nb-c==2 ; python_version < '3.13'\nb-c==3\n"
    assert disagreements(first, "a==1\nB_c==3\n") == ["b-c"]
    assert disagreements(first, "d==9\na==1\n") == []


def test_what_tests_import_from_each_other_is_there():
    """A module of tests that fails on import hides all of its tests."""

    @cache
    def tree_of(path: Path) -> ast.Module:
        return ast.parse(path.read_text(encoding="utf-8"))

    @cache
    def names(path: Path) -> set[str]:
        tree = tree_of(path)
        return {
            name.asname or name.name
            for node in tree.body
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in node.names
        } | {
            found.id if isinstance(found, ast.Name) else found.name
            for node in tree.body
            for found in ast.walk(node)
            if isinstance(found, ast.FunctionDef | ast.ClassDef)
            or (isinstance(found, ast.Name) and isinstance(found.ctx, ast.Store))
        }

    missing = []
    with source_modules.many_nodes():
        for path in (PROJECT / "tests").rglob("*.py"):
            for node in ast.walk(tree_of(path)):
                if not isinstance(node, ast.ImportFrom):
                    continue
                if not (node.module or "").startswith("tests"):
                    continue
                place = PROJECT / node.module.replace(".", "/")
                module = place.with_suffix(".py")
                there = names(module) if module.exists() else set()
                for name in node.names:
                    is_module = (place / name.name).is_dir() or (place / f"{name.name}.py").exists()
                    if name.name not in there and not is_module:
                        missing.append(f"{path.relative_to(PROJECT)}: {node.module}.{name.name}")
    assert missing == []
