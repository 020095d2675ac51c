"""Programs and meshes as users have them, and the requests that send them."""

from __future__ import annotations

import gzip
import json
import tomllib
from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from tapestry.client.calls import Call, Upload
from tapestry.teg.faults import ArgumentError, expected

ProgramLike = str | PathLike[str] | bytes | Mapping[str, Any]
MeshLike = str | PathLike[str] | Mapping[str, Any]

TEG = (".json", ".json.gz")
# The first bytes of a program's content, and the suffix by which the service knows its format; ONNX has none.
PREFIXES = ((b"ML\xefR", ".mlirbc"), (b"PK\x03\x04", ".pt2"), (b"module", ".mlir"), (b"#", ".mlir"))


def program_call(program: ProgramLike, name: str | None, dims: Mapping[str, int] | None) -> Call:
    """Return the request that sends a program.

    A mapping is a TEG document, bytes and a text of several lines are the content of a file, other texts are paths.

    Raises:
        ArgumentError: there is no such file, or the program is something else.
    """
    if isinstance(program, Mapping):
        return _document_call(json.dumps(program).encode())
    if isinstance(program, bytes) or (isinstance(program, str) and "\n" in program):
        content = program if isinstance(program, bytes) else program.encode()
        if content.lstrip()[:1] == b"{":
            return _document_call(content)
        suffixes = (suffix for prefix, suffix in PREFIXES if content.lstrip().startswith(prefix))
        return _upload_call(Upload(f"{name or 'model'}{next(suffixes, '.onnx')}", content), name, dims)
    if not isinstance(program, (str, PathLike)):
        raise ArgumentError(expected("program", "a path, a text, bytes or a TEG document", program))
    path = Path(fspath(program))
    if not path.is_file():
        raise ArgumentError(f"program: there is no file {str(path)!r}")
    if path.name.lower().endswith(TEG):
        content = path.read_bytes()
        return _document_call(gzip.decompress(content) if path.suffix == ".gz" else content)
    return _upload_call(Upload(path.name, path), name, dims)


def mesh_document(mesh: MeshLike) -> str | dict[str, Any]:
    """Return a mesh as a request names it: a name of the catalog, or the fields of a mesh file.

    Raises:
        ArgumentError: a path (it ends in `.toml`) at which there is no mesh file, or something else.
    """
    if isinstance(mesh, Mapping):
        return dict(mesh)
    if not isinstance(mesh, (str, PathLike)):
        raise ArgumentError(expected("mesh", "a name, the path of a TOML file or its fields", mesh))
    text = fspath(mesh)
    if not text.endswith(".toml"):
        return text
    try:
        return tomllib.loads(Path(text).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ArgumentError(f"mesh: {text!r} cannot be read: {error}") from error


def _document_call(content: bytes) -> Call:
    return Call("POST", "/v1/graphs", content=content, headers={"Content-Type": "application/json"})


def _upload_call(upload: Upload, name: str | None, dims: Mapping[str, int] | None) -> Call:
    fields: dict[str, str | list[str]] = {} if name is None else {"name": name}
    if dims:
        fields["dims"] = [f"{dim}={size}" for dim, size in dims.items()]
    return Call("POST", "/v1/graphs/import", upload=Upload(upload.name, upload.content, fields))
