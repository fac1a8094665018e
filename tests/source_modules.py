"""The Python files of the product, parsed, with what each of them imports."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

CODE_FOLDERS = ("dags", "plugins", "spark_jobs")
IMPORT_ROOTS = ("plugins", "spark_jobs")


@dataclass(frozen=True, slots=True)
class Import:
    """One imported name, e.g. `pyspark.sql.SparkSession`."""

    name: str
    line: int
    when: str
    """`load` with the module itself, `call` inside a function, `typing` only for type checkers."""

    def of(self, *packages: str) -> bool:
        """Whether the name is one of the packages or lies inside one."""
        return any(
            self.name == package or self.name.startswith(f"{package}.") for package in packages
        )


@dataclass(frozen=True, slots=True)
class Module:
    """One Python file of the product."""

    path: Path
    """Relative to the root of the tree."""
    name: str
    """As it is imported."""
    text: str
    tree: ast.Module
    imports: tuple[Import, ...]

    def inside(self, *packages: str) -> bool:
        """Whether the module is one of the packages or lies inside one."""
        return any(
            self.name == package or self.name.startswith(f"{package}.") for package in packages
        )


def modules(root: Path) -> list[Module]:
    """Every Python file of DAGs, plugins and library."""
    found = []
    with many_nodes():
        for folder in CODE_FOLDERS:
            for file in sorted((root / folder).rglob("*.py")):
                if "__pycache__" in file.parts:
                    continue
                path = file.relative_to(root)
                found.append(_module(path, file.read_text(encoding="utf-8")))
    return found


@contextmanager
def many_nodes() -> Iterator[None]:
    """Parse many files without Python looking for garbage among ever more nodes.

    That takes longer than to parse them.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@lru_cache(maxsize=2000)
def _module(path: Path, text: str) -> Module:
    """A file, read once for all rules."""
    parts = path.with_suffix("").parts[1 if path.parts[0] in IMPORT_ROOTS else 0 :]
    package = parts if path.name == "__init__.py" else parts[:-1]
    package = tuple(part for part in package if part != "__init__")
    name = ".".join(part for part in parts if part != "__init__")
    tree = ast.parse(text, str(path))
    return Module(path, name, text, tree, tuple(_imports(tree.body, package, "load")))


def _imports(nodes: list[ast.stmt], package: tuple[str, ...], when: str) -> Iterator[Import]:
    for node in nodes:
        yield from _imports_of(node, package, when)


def _imports_of(node: ast.AST, package: tuple[str, ...], when: str) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield Import(alias.name, node.lineno, when)
    elif isinstance(node, ast.ImportFrom):
        base = package[: len(package) - node.level + 1] if node.level else ()
        stem = ".".join((*base, *([node.module] if node.module else ())))
        for alias in node.names:
            yield Import(f"{stem}.{alias.name}" if stem else alias.name, node.lineno, when)
    elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
        yield from _imports(node.body, package, "typing")
        yield from _imports(node.orelse, package, when)
    else:
        if isinstance(node, ast.Call) and (name := _imported_by_call(node)):
            yield Import(name, node.lineno, when)
        inner = (
            "call"
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            else when
        )
        for child in ast.iter_child_nodes(node):
            yield from _imports_of(child, package, inner)


def _imported_by_call(node: ast.Call) -> str | None:
    """The module that `import_module("x")` or `__import__("x")` brings in, if written out."""
    called = (
        node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    )
    if called not in {"import_module", "__import__"} or not node.args:
        return None
    first = node.args[0]
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None
