"""The project's own source, read with `ast` and never imported: the imports of each module, and their lines."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("teg", "hardware", "rewrites", "costmodel", "optimizer", "client", "service")


@dataclass(frozen=True)
class Import:
    """An imported name: `target` is the dotted name as written, `inner` says that a function imports it."""

    target: str
    line: int
    inner: bool


class Defined(NamedTuple):
    """A module, class or function: the kind of its node, its docstring, and its decorators without their arguments."""

    kind: type[ast.AST]
    name: str
    line: int
    docstring: str
    decorators: tuple[str, ...]


class Contents(NamedTuple):
    """All that the tests read of a module. Its syntax tree is not kept: all trees together are millions of objects."""

    imports: tuple[Import, ...]
    packages_requested: tuple[str, ...]
    definitions: tuple[Defined, ...]
    attributes: tuple[tuple[str, int], ...]
    assigned: tuple[str, ...]
    annotated: tuple[tuple[int, str, str], ...]


@dataclass(frozen=True)
class Module:
    """A source file: dotted `name` (`tapestry.teg.graph`), text and contents."""

    name: str
    path: Path

    @property
    def package(self) -> str:
        return package_of(self.name)

    @property
    def relative_path(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    @cached_property
    def contents(self) -> Contents:
        tree = ast.parse(self.text, filename=str(self.path))
        nodes = list(ast.walk(tree))
        packages = (_absolute(node, self) for node in nodes if isinstance(node, ast.ImportFrom))
        return Contents(
            tuple(_imports_in(tree, self, inner=False)),
            tuple(dict.fromkeys(packages)),
            tuple(_defined(node) for node in nodes if isinstance(node, DEFINITIONS)),
            tuple((_dotted(n), n.lineno) for n in nodes if isinstance(n, ast.Attribute) and _is_plain(n)),
            tuple(name for statement in tree.body for name in _assigned(statement)),
            tuple(_annotated(nodes)),
        )

    @property
    def imports(self) -> tuple[Import, ...]:
        return self.contents.imports

    @property
    def packages_requested(self) -> tuple[str, ...]:
        """The packages of `from package import name`: their `__init__` runs first, even where the name is a module."""
        return self.contents.packages_requested


DEFINITIONS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def package_of(target: str) -> str:
    """Return the folder of ours that a dotted name is in (`teg` for `tapestry.teg.graph`); empty for all others."""
    ours, _, rest = target.partition(".")
    return rest.partition(".")[0] if ours == "tapestry" else ""


@cache
def modules(packages: Sequence[str] = PACKAGES) -> tuple[Module, ...]:
    """Return every module of the packages, in order of name."""
    return tuple(sorted(chain.from_iterable(map(_modules_of, packages)), key=lambda module: module.name))


@cache
def _modules_of(package: str) -> tuple[Module, ...]:
    """Return every module of a package; each is one object, whoever asks, so that it is parsed once."""
    found = []
    for path in (ROOT / package).rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(("tapestry", *(parts[:-1] if parts[-1] == "__init__" else parts)))
        found.append(Module(name, path))
    return tuple(found)


@cache
def resolve(target: str) -> str:
    """Find the project module in which `target` is defined, through the re-exports of `__init__` files.

    A name from outside the project's packages comes back unchanged.
    """
    by_name = {module.name: module for module in modules()}
    if target in by_name or package_of(target) not in PACKAGES:
        return target
    parent, _, name = target.rpartition(".")
    if parent not in by_name:
        return resolve(parent) if parent else target
    for found in by_name[parent].imports:
        if found.target.rpartition(".")[2] == name and found.target != target:
            return resolve(found.target)
    return parent


def direct_module(target: str) -> str:
    """Find the project module that Python loads for `target` (no re-exports followed)."""
    names = {module.name for module in modules()}
    while target not in names and "." in target:
        target = target.rpartition(".")[0]
    return target


def under(name: str, prefix: str) -> bool:
    """Return whether a dotted name is `prefix` or lies inside it."""
    return name == prefix or name.startswith(prefix + ".")


def _defined(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> Defined:
    decorators = (d.func if isinstance(d, ast.Call) else d for d in getattr(node, "decorator_list", ()))
    return Defined(
        type(node),
        getattr(node, "name", ""),
        getattr(node, "lineno", 1),
        ast.get_docstring(node) or "",
        tuple(map(_dotted, decorators)),
    )


def _assigned(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement assigns to."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    yield from (target.id for target in targets if isinstance(target, ast.Name))


def _annotated(nodes: Sequence[ast.AST]) -> Iterator[tuple[int, str, str]]:
    """Yield line, name and type of each parameter, field, attribute and variable that has an annotation."""
    for node in nodes:
        if isinstance(node, ast.arg) and node.annotation:
            yield node.lineno, node.arg, _dotted(node.annotation).strip("'")
        elif isinstance(node, ast.AnnAssign):
            yield node.lineno, _dotted(node.target), _dotted(node.annotation).strip("'")


def _dotted(node: ast.expr) -> str:
    """Return the text of an expression; of names and their attributes quicker than `ast.unparse`."""
    if isinstance(node, ast.Name):
        return node.id
    return f"{_dotted(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else ast.unparse(node)


def _is_plain(node: ast.Attribute) -> bool:
    """Return whether an attribute is one of a module's attributes, `np.random.seed`: two dots, from a name."""
    return isinstance(node.value, ast.Attribute) and isinstance(node.value.value, ast.Name)


def _imports_in(node: ast.AST, module: Module, inner: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, child.lineno, inner) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            base = _absolute(child, module)
            for alias in child.names:
                yield Import(base if alias.name == "*" else f"{base}.{alias.name}", child.lineno, inner)
        elif isinstance(child, ast.Call) and _is_dynamic_import(child):
            yield Import(_constant_argument(child), child.lineno, inner)
            yield from _imports_in(child, module, inner)
        else:
            function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _imports_in(child, module, inner or function)


def _absolute(statement: ast.ImportFrom, module: Module) -> str:
    if not statement.level:
        return statement.module or ""
    parts = module.name.split(".")
    is_package = module.path.name == "__init__.py"
    kept = parts[: len(parts) - statement.level + is_package]
    return ".".join([*kept, *([statement.module] if statement.module else [])])


def _is_dynamic_import(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return name in {"import_module", "__import__"}


def _constant_argument(call: ast.Call) -> str:
    first = call.args[0] if call.args else None
    return str(first.value) if isinstance(first, ast.Constant) else "<computed>"
