"""The versioned JSON document of a graph: an exact round trip, and errors that state the place and the remedy.

    {"teg": 1, "name": ..., "definitions": [...], "tensors": [...], "blocks": [...], "data": {...}}

Blocks refer to definitions by position, so equal layers cost one line each. Reading builds values and
nothing else: no code is run, nothing is unpickled. The meaning of a document is checked by `teg.validate`;
its form is published as a JSON Schema (`json_schema`).
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from importlib.resources import files
from pathlib import Path
from typing import Any

from tapestry.teg.decoding import DocumentError, decode
from tapestry.teg.document_members import (
    block_member,
    compact,
    definition_member,
    external_member,
    tensor_member,
)
from tapestry.teg.encoding import MalformedError, encode_array
from tapestry.teg.graph import Graph
from tapestry.teg.issues import Issue, key_path
from tapestry.teg.jsontext import parse
from tapestry.teg.whole_files import whole_file

__all__ = [
    "MAX_BLOCKS",
    "MAX_BYTES",
    "VERSION",
    "DocumentError",
    "dumps",
    "from_document",
    "json_schema",
    "json_values",
    "load",
    "loads",
    "read_content",
    "save",
    "to_document",
]

VERSION = 1
MAX_BLOCKS = 1_000_000
MAX_BYTES = 2**30


def to_document(graph: Graph) -> dict[str, Any]:
    """Convert a graph to plain JSON values (dict, list, str, int, float, bool, None).

    Raises:
        DocumentError: an attribute or an array that JSON cannot represent exactly.
    """
    positions = {d: k for k, d in enumerate(dict.fromkeys(b.definition for b in graph.blocks))}
    try:
        document = {
            "teg": VERSION,
            "name": graph.name,
            "definitions": [definition_member(d, f"$.definitions[{k}]") for d, k in positions.items()],
            "tensors": [tensor_member(t, f"$.tensors[{k}]") for k, t in enumerate(graph.tensors.values())],
            "blocks": [
                block_member(b, positions[b.definition], f"$.blocks[{k}]") for k, b in enumerate(graph.blocks)
            ],
            "data": {
                **{site: encode_array(a, key_path("$.data", site)) for site, a in graph.data.items()},
                **{site: external_member(e, key_path("$.data", site)) for site, e in graph.external.items()},
            },
        }
        return {**document, "values": _values(graph)} if graph.values else document
    except MalformedError as problem:
        raise DocumentError([problem.issue], "this graph has no document") from None


def from_document(obj: Any, *, max_blocks: int = MAX_BLOCKS, max_bytes: int = MAX_BYTES) -> Graph:
    """Build the graph of a document, its nodes interned.

    Args:
        obj: what `json.loads` returns for the document.
        max_blocks: the largest number of blocks, definitions or tensors accepted.
        max_bytes: the largest total of data bytes accepted.

    Raises:
        DocumentError: the form is wrong; all malformed places are listed.
    """
    return decode(obj, version=VERSION, max_blocks=max_blocks, max_bytes=max_bytes)


def dumps(graph: Graph) -> str:
    """Format the document as text with one definition, tensor, block and array per line."""
    return "".join(_lines(to_document(graph)))


def loads(text: str | bytes, *, max_blocks: int = MAX_BLOCKS, max_bytes: int = MAX_BYTES) -> Graph:
    """Parse the graph of a document's text; `max_bytes` bounds the text as well as the data in it.

    Raises:
        DocumentError: no JSON, or JSON of another form.
    """
    obj = json_values(text, max_bytes)
    return from_document(obj, max_blocks=max_blocks, max_bytes=max_bytes)


def json_values(text: str | bytes, max_bytes: int = MAX_BYTES) -> Any:
    """Parse a document's text into JSON values.

    Raises:
        DocumentError: too long, or no JSON.
    """
    if len(text) > max_bytes:
        raise _unreadable(
            f"more than {max_bytes} bytes", f"at most {max_bytes} are accepted; raise max_bytes", "size"
        )
    try:
        return parse(text)
    except MalformedError as problem:
        raise DocumentError([problem.issue]) from None


def save(graph: Graph, path: str | os.PathLike[str]) -> None:
    """Write the document to a `.json` or `.json.gz` file; the file appears whole or not at all."""
    target = _checked(path)
    content = dumps(graph).encode()
    with whole_file(target) as file:
        file.write(content)


def load(path: str | os.PathLike[str], *, max_blocks: int = MAX_BLOCKS, max_bytes: int = MAX_BYTES) -> Graph:
    """Load the graph of a `.json` or `.json.gz` file; `max_bytes` bounds the unpacked text.

    Raises:
        DocumentError: the file is no document.
        OSError: the file cannot be read.
    """
    return loads(read_content(path, max_bytes), max_blocks=max_blocks, max_bytes=max_bytes)


def read_content(path: str | os.PathLike[str], max_bytes: int = MAX_BYTES) -> bytes:
    """Read the unpacked bytes of a `.json` or `.json.gz` file, one more than `max_bytes` at most.

    Raises:
        DocumentError: another suffix, or a broken gzip file.
        OSError: the file cannot be read.
    """
    source = _checked(path)
    try:
        if source.suffix != ".gz" and source.stat().st_size > max_bytes:
            raise _unreadable(
                f"{source.stat().st_size} bytes", f"at most {max_bytes} are accepted; raise max_bytes", "size"
            )
        with gzip.open(source) if source.suffix == ".gz" else source.open("rb") as file:
            return file.read(max_bytes + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise _unreadable(f"a broken gzip file ({error})", f"is {source.name} whole?") from None


def json_schema() -> dict[str, Any]:
    """Load the published JSON Schema (draft 2020-12) of the document."""
    text = (files("tapestry.teg") / "schema" / f"teg-{VERSION}.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def _values(graph: Graph) -> dict[str, Any]:
    return {
        name: {"tensor": v.tensor, "shape": list(v.shape), "dims": [list(own) for own in v.dims]}
        for name, v in graph.values.items()
        if v.tensor in graph.tensors
    }


def _lines(document: dict[str, Any]) -> list[str]:
    """Format the text of a document: scalars first, then each table with one member per line."""
    parts = ["{"]
    for number, (key, value) in enumerate(document.items()):
        parts.append(f"{',' if number else ''}\n{json.dumps(key)}: ")
        if isinstance(value, list):
            members = [compact(v) for v in value]
            parts.append("[" + ",".join(f"\n {m}" for m in members) + "]")
        elif isinstance(value, dict):
            members = [f"{json.dumps(k)}:{compact(v)}" for k, v in value.items()]
            parts.append("{" + ",".join(f"\n {m}" for m in members) + "}")
        else:
            parts.append(json.dumps(value))
    return [*parts, "\n}\n"]


def _unreadable(message: str, expected: str, kind: str = "document") -> DocumentError:
    return DocumentError([Issue(kind, "$", message, expected)])


def _checked(path: str | os.PathLike[str]) -> Path:
    target = Path(path)
    if not target.name.endswith((".json", ".json.gz")):
        raise _unreadable(f"a file called {target.name!r}", "a document's file ends in .json or .json.gz")
    return target
