"""A page's modules joined into one script, and all styles into one sheet, so that a cold load takes few requests.

Modules import by name, `import { a, b as c } from "./x.js";`, and export functions, classes and constants: each becomes
a function that is called once, after those that it imports. Nothing is transformed beyond these two statements.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath

IMPORT = re.compile(r'^import\s*\{([^}]*)\}\s*from\s*"(\.[^"]+)";[ \t]*$', re.MULTILINE)
BARE_IMPORT = re.compile(r'^import\s*"(\.[^"]+)";[ \t]*$', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function\*?|class|const) (\w+))", re.MULTILINE)
OTHER = re.compile(r"^(?:import|export)\b.*$|\bawait import\(", re.MULTILINE)


class BundleError(ValueError):
    """A module has an import or an export that cannot be joined; names the file and the statement."""


@dataclass(frozen=True)
class Bundle:
    """A script or style sheet: its text, gzipped too, and a digest of the text."""

    text: bytes
    packed: bytes
    digest: str


def bundle_of(text: str) -> Bundle:
    """Pack a text; the same text has the same digest."""
    content = text.encode()
    return Bundle(content, gzip.compress(content, 9, mtime=0), hashlib.sha256(content).hexdigest()[:16])


def joined_modules(folder: Path, entry: str) -> str:
    """Join the module `entry`, a path in `folder`, with all that it imports into one module without imports.

    Raises `BundleError` for imports and exports in other forms, and for cycles.
    """
    order: list[str] = []
    _visit(folder, entry, order, ())
    numbers = {name: k for k, name in enumerate(order)}
    return '"use strict";\n' + "".join(_part(folder, name, numbers) for name in order)


def _visit(folder: Path, name: str, order: list[str], above: tuple[str, ...]) -> None:
    if name in above:
        raise BundleError(f"{name}: its imports lead back to it: {' -> '.join((*above, name))}")
    if name in order:
        return
    for imported in _imports(folder, name):
        _visit(folder, imported, order, (*above, name))
    order.append(name)


def _imports(folder: Path, name: str) -> Iterator[str]:
    text = (folder / name).read_text()
    for found in (*IMPORT.finditer(text), *BARE_IMPORT.finditer(text)):
        yield _resolved(name, found[found.lastindex or 1])


def _resolved(name: str, address: str) -> str:
    parts: list[str] = []
    for part in (PurePosixPath(name).parent / address).parts:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


def _part(folder: Path, name: str, numbers: dict[str, int]) -> str:
    text = (folder / name).read_text()
    exported = EXPORT.findall(text)
    text = EXPORT.sub("", text)

    def bind(found: re.Match[str]) -> str:
        names = [each.strip().replace(" as ", ": ") for each in found[1].split(",") if each.strip()]
        return f"const {{ {', '.join(names)} }} = m{numbers[_resolved(name, found[2])]};"

    text = BARE_IMPORT.sub("", IMPORT.sub(bind, text))
    if other := OTHER.search(text):
        raise BundleError(
            f"{name}: {other[0].strip()!r} cannot be joined; import and export by name at the top"
        )
    return f"// {name}\nconst m{numbers[name]} = (() => {{\n{text}\nreturn {{ {', '.join(exported)} }};\n}})();\n"


# A running service follows no change of its Python files, nor of these: what it serves belongs together.
@lru_cache(maxsize=64)
def page_script(folder: Path, page: str) -> Bundle:
    """Return the script of a page: `pages/<page>.js` with all that it imports; joined once.

    Raises `BundleError` if a module cannot be joined.
    """
    return bundle_of(joined_modules(folder, f"pages/{page}.js"))


@lru_cache(maxsize=4)
def style_sheet(folder: Path, names: tuple[str, ...]) -> Bundle:
    """Return the sheets of those names joined in this order; joined once."""
    return bundle_of("\n".join((folder / f"{name}.css").read_text() for name in names))
