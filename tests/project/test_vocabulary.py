"""Tests that the words of the code are those of `docs/glossary.md`, which lists terms, words not used and old names."""

from __future__ import annotations

import ast
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from tapestry.rewrites import PLACEMENT, RULES
from tapestry.service.store.tables import Base
from tapestry.teg.operators import OPERATORS
from tests.project.source import PACKAGES, ROOT, modules

GLOSSARY = ROOT / "docs" / "glossary.md"
FOLDERS = (*PACKAGES, "examples", "benchmarks")
READ = (".py", ".js", ".css", ".html", ".md", ".svg", ".json", ".toml", ".yml", ".sql", ".mako", ".ini")
TOP = (
    "README.md",
    "CONTRIBUTING.md",
    "Makefile",
    "Dockerfile",
    "mkdocs.yml",
    "docker-compose.yml",
    "pyproject.toml",
)
WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
QUOTED = re.compile(r"`([^`]+)`")
# Names in scripts, styles and templates: declared, parameters of methods, keys of objects, ids of elements.
NAMED = re.compile(
    r"\b(?:const|let|class|function|get|set|static|async)\s+#?(\w+)|^\s*#?(\w+)\s*[:(]|\bid=\"([\w-]+)\"",
    re.MULTILINE,
)

# Places of words not used, with the reason: a file, or a word in it.
EXCEPTIONS = {
    "tests/project/test_vocabulary.py": "its examples are words not used",
    "tests/vectors/cases": "cases of other projects, in their words",
    "tests/service/store/test_migrations.py: barren": "a column of the first releases",
    "tests/service/store/test_migrations.py: cure": "a key of the first releases",
    "service/provenance.py: machine": "the processor architecture that `platform.machine` returns, a stored key",
}


@cache
def table(heading: str) -> tuple[tuple[str, ...], ...]:
    """Return the rows of the table under a heading of the glossary, without its head."""
    section = GLOSSARY.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    return tuple(tuple(cell.strip() for cell in row.strip("|").split("|")) for row in rows[2:])


@cache
def barred(scope: str) -> re.Pattern[str]:
    """Compile the words not used in a scope into one pattern."""
    return re.compile("|".join(w.replace("*", "[a-z]*") for w in unused_words(scope) if " " not in w))


@cache
def unused_words(scope: str) -> tuple[str, ...]:
    """Return the words, and the phrases of several words, that are not used in a scope."""
    rows = table("Words not used")
    return tuple(chain.from_iterable(QUOTED.findall(word) for word, _, where in rows if where == scope))


@cache
def phrases() -> re.Pattern[str]:
    """Compile the phrases not used into one pattern, which finds their plurals too."""
    return re.compile(rf"\b({'|'.join(w for w in unused_words('everywhere') if ' ' in w)})s?\b")


def phrases_in(line: str) -> Iterator[str]:
    """Yield the phrases not used that a line contains, also as a part of an identifier."""
    yield from phrases().findall(line.lower().replace("_", " "))


@cache
def is_barred(name: str, scope: str = "everywhere") -> bool:
    """Return whether a part of an identifier (`snake_case`, `CamelCase`) is a word not used."""
    return any(barred(scope).fullmatch(part.lower()) for part in PART.findall(name))


def old_names() -> set[str]:
    """Return the names that the glossary allows."""
    return {QUOTED.findall(name)[0] for name, _, _ in table("Names that keep an old word")}


def stored_names() -> set[str]:
    """Return the names of rules, operators and columns, which are data."""
    columns = {column.name for stored in Base.metadata.tables.values() for column in stored.columns}
    return {rule.name for rule in (*RULES, *PLACEMENT)} | {o.name for o in OPERATORS} | columns


def texts() -> Iterator[tuple[Path, str]]:
    """Yield every text of ours in which words matter, but for the glossary itself and released migrations."""
    found = chain.from_iterable((ROOT / folder).rglob("*") for folder in (*FOLDERS, "docs", "tests"))
    for path in (
        *(ROOT / name for name in TOP),
        *sorted(p for p in found if p.suffix in READ and p != GLOSSARY and "versions" not in p.parts),
    ):
        if not any(place_of(parent) in EXCEPTIONS for parent in (path, *path.parents)):
            yield path, path.read_text(encoding="utf-8")


def place_of(path: Path) -> str:
    """Return a path inside the repository as text; the path itself where it is not inside."""
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)


def names_in(path: Path, text: str) -> Iterator[str]:
    """Yield the identifiers that a file declares, and the keys of JSON that it writes or reads."""
    if path.suffix == ".py":
        yield from chain.from_iterable(map(python_names, ast.walk(ast.parse(text))))
    elif path.suffix == ".json":
        yield from json_keys(json.loads(text))
    elif path.suffix in (".js", ".html"):
        yield from (name for found in NAMED.findall(text) for name in found if name)


def python_names(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node declares, and the texts by which it makes or reads members of dictionaries."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case (
            ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store())
        ):
            yield name
        case ast.Dict(keys=keys):
            yield from (k.value for k in keys if isinstance(k, ast.Constant) and isinstance(k.value, str))
        case ast.Subscript(slice=ast.Constant(value=str() as key)):
            yield key


def json_keys(value: Any) -> Iterator[str]:
    """Yield the keys of all objects inside a JSON value."""
    if isinstance(value, dict):
        yield from value
        yield from chain.from_iterable(map(json_keys, value.values()))
    elif isinstance(value, list):
        yield from chain.from_iterable(map(json_keys, value))


def resolved(name: str) -> Any:
    """Return what a dotted name inside the package stands for; raise where there is nothing of that name."""
    parts = name.split(".")
    for k in range(len(parts), 0, -1):
        try:
            found: Any = import_module(".".join(("tapestry", *parts[:k])))
        except ModuleNotFoundError:
            continue
        for part in parts[k:]:
            found = found.__dict__.get(part) or found.__annotations__[part]
        return found
    raise ModuleNotFoundError(name)


def test_the_glossary_has_its_tables() -> None:
    assert len(table("Terms")) > 40 and len(table("Words not used")) > 20
    assert {len(row) for row in table("Terms")} == {4}
    assert {scope for _, _, scope in table("Words not used")} == {"everywhere", "modules", "names"}


@pytest.mark.parametrize("name", [n for row in table("Terms") for n in QUOTED.findall(row[2])])
def test_a_term_names_something_in_the_code(name: str) -> None:
    assert resolved(name) is not None


def test_the_pattern_finds_parts_of_identifiers_and_nothing_else() -> None:
    assert is_barred("ParentSight") and is_barred("no_scenes_left") and is_barred("HEART")
    assert is_barred("normalise") and is_barred("reorganisation") and is_barred("layer_norm_of_centred")
    assert not any(map(is_barred, ("heartbeat", "insight", "raise", "otherwise", "precise", "Promise")))
    assert is_barred("given", "modules") and not is_barred("given")
    assert list(phrases_in("ISSUE_ORDERS = 3")) == ["issue order"] and not list(phrases_in("schedule order"))
    assert list(phrases_in("Hand it in.")) == ["hand it in"] and not list(
        phrases_in("beforehand in, hand inside")
    )
    assert (
        is_barred("machineText", "names") and is_barred("my_machines", "names") and not is_barred("machine")
    )


def test_no_word_that_is_not_used_appears() -> None:
    allowed = old_names()
    wrong = [
        f"{place_of(path)}:{number}: {word}"
        for path, text in texts()
        for number, line in enumerate(text.splitlines(), start=1)
        for word in (*(w for w in WORD.findall(line) if w not in allowed and is_barred(w)), *phrases_in(line))
        if f"{place_of(path)}: {word}" not in EXCEPTIONS
    ]
    assert not wrong, "docs/glossary.md says what to use instead:\n" + "\n".join(wrong)


def test_no_name_and_no_key_is_a_word_that_is_not_used() -> None:
    wrong = [
        f"{place_of(path)}: {name}"
        for path, text in texts()
        if any(is_barred(word, "names") for word in set(WORD.findall(text)))  # parsing takes long
        for name in dict.fromkeys(names_in(path, text))
        if is_barred(name, "names") and f"{place_of(path)}: {name}" not in EXCEPTIONS
    ]
    assert not wrong, "docs/glossary.md says what to use instead:\n" + "\n".join(wrong)


def test_names_and_keys_are_found() -> None:
    text = 'class A:\n    b: int\n    def c(self, d):\n        self.e = {"f": d["g"]}\n'
    assert {*names_in(Path("x.py"), text)} == {"A", "b", "c", "self", "d", "e", "f", "g"}
    assert [*names_in(Path("x.json"), '{"a": [{"b": "c"}]}')] == ["a", "b"]
    assert [*names_in(Path("x.js"), "const a = b;\n  c(d) {\n  e: f,")] == ["a", "c", "e"]
    assert [*names_in(Path("x.html"), '<p id="a">b</p>')] == ["a"]


def test_every_exception_is_of_use() -> None:
    for place in EXCEPTIONS:
        path, _, word = place.partition(": ")
        assert (ROOT / path).exists() and word in ((ROOT / path).read_text() if word else "")


def test_no_file_is_named_by_a_word_that_is_not_used() -> None:
    named = [path for path, _ in texts()]
    wrong = [p for p in named if is_barred(p.stem) or (p.suffix == ".py" and is_barred(p.stem, "modules"))]
    assert not wrong


def test_old_names_are_exactly_those_that_are_stored() -> None:
    assert {name for name in stored_names() if is_barred(name)} == old_names()


def test_no_public_class_has_one_name_in_two_modules() -> None:
    found: dict[str, set[str]] = defaultdict(set)
    for module in modules(FOLDERS):
        for defined in module.contents.definitions:
            if defined.kind is ast.ClassDef and not defined.name.startswith("_"):
                found[defined.name].add(module.name)
    assert {name: places for name, places in found.items() if len(places) > 1} == {}


def test_no_type_alias_has_the_name_of_a_class_of_its_package() -> None:
    classes = {
        (module.package, defined.name)
        for module in modules(FOLDERS)
        for defined in module.contents.definitions
        if defined.kind is ast.ClassDef
    }
    aliases = {
        (module.package, name)
        for module in modules(FOLDERS)
        for name in module.contents.assigned
        if name[0].isupper() and not name.isupper()
    }
    assert len(aliases) > 100
    assert sorted(classes & aliases) == []


def test_mesh_shapes_and_nothing_else_are_called_mesh_shape() -> None:
    named = [
        (f"{module.relative_path}:{line}: {name}: {kind}", kind.removesuffix(" | None"), name)
        for module in modules((*FOLDERS, "tests"))
        for line, name, kind in module.contents.annotated
    ]
    assert sum(kind == "MeshShape" for _, kind, _ in named) > 80
    wrong = [place for place, kind, name in named if (kind == "MeshShape") != name.endswith("mesh_shape")]
    assert not wrong, "a `MeshShape` is a `mesh_shape`, a `mesh` has devices and links:\n" + "\n".join(wrong)
