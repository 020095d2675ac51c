"""Programs and meshes as users have them, and the requests that send them."""

from __future__ import annotations

import gzip
import json
import tomllib
from collections.abc import Mapping, Sequence
from io import BytesIO
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from tapestry.client.calls import Call, Upload
from tapestry.teg.content_hash import content_hash
from tapestry.teg.faults import ArgumentError, expected

ProgramLike = str | PathLike[str] | bytes | Mapping[str, Any]
MeshLike = str | PathLike[str] | Mapping[str, Any]
PathText = str | PathLike[str]
DataLike = Sequence[PathText] | Mapping[str, PathText | bytes]

TEG = (".json", ".json.gz")
# Files from this size on are asked for by their hash before they are sent.
LARGE_BYTES = 2**20
# The first bytes of a program's content, and the suffix by which the service knows its format; ONNX has none.
PREFIXES = ((b"ML\xefR", ".mlirbc"), (b"PK\x03\x04", ".pt2"), (b"module", ".mlir"), (b"#", ".mlir"))


def program_call(
    program: ProgramLike, name: str | None, dims: Mapping[str, int] | None, data: DataLike = ()
) -> Call:
    """Return the request that sends a program, and the external data of an ONNX file in parts of their own.

    A mapping is a TEG document, bytes and a text of several lines are the content of a file, other texts are paths.

    Raises:
        ArgumentError: there is no such file, or the program is something else, or no ONNX file although there is data.
    """
    found = _document_or_upload(program, name)
    if isinstance(found, bytes):
        if data:
            raise ArgumentError("data: a TEG document has its values inside; external data is for ONNX files")
        return Call("POST", "/v1/graphs", content=found, headers={"Content-Type": "application/json"})
    fields: dict[str, str | list[str]] = {} if name is None else {"name": name}
    if dims:
        fields["dims"] = [f"{dim}={size}" for dim, size in dims.items()]
    upload = Upload(found.name, found.content, fields, _data_parts(data))
    return Call("POST", "/v1/graphs/import", upload=upload)


def known_call(call: Call) -> Call | None:
    """Return the request for the program of a large file by its hash; None for what is as quickly sent again."""
    upload = call.upload
    if upload is None or sum(map(_size_bytes, (upload.content, *upload.data.values()))) < LARGE_BYTES:
        return None
    suffix = Path(upload.name).suffix.lower()
    hashes = [_hash(upload.content, suffix), *(_hash(content) for content in upload.data.values())]
    params = {**upload.fields, "filename": upload.name, "sha256": hashes, "data": list(upload.data)}
    return Call("GET", call.path, params=params)


def _size_bytes(content: bytes | Path) -> int:
    return len(content) if isinstance(content, bytes) else content.stat().st_size


def _hash(content: bytes | Path, suffix: str = "") -> str:
    with BytesIO(content) if isinstance(content, bytes) else content.open("rb") as file:
        return content_hash(file, suffix)


def _document_or_upload(program: ProgramLike, name: str | None) -> bytes | Upload:
    """Return the text of a TEG document, or the file of another program."""
    if isinstance(program, Mapping):
        return json.dumps(program).encode()
    if isinstance(program, bytes) or (isinstance(program, str) and "\n" in program):
        content = program if isinstance(program, bytes) else program.encode()
        if content.lstrip()[:1] == b"{":
            return content
        suffixes = (suffix for prefix, suffix in PREFIXES if content.lstrip().startswith(prefix))
        return Upload(f"{name or 'model'}{next(suffixes, '.onnx')}", content)
    if not isinstance(program, (str, PathLike)):
        raise ArgumentError(expected("program", "a path, a text, bytes or a TEG document", program))
    path = _file("program", program)
    if path.name.lower().endswith(TEG):
        content = path.read_bytes()
        return gzip.decompress(content) if path.suffix == ".gz" else content
    return Upload(path.name, path)


def _data_parts(data: DataLike) -> dict[str, bytes | Path]:
    """Return the files of external data by the names by which an ONNX file refers to them."""
    if isinstance(data, (str, bytes, PathLike)):
        raise ArgumentError(expected("data", "a list of paths, or paths and contents by name", data))
    if not isinstance(data, Mapping):
        paths = [_file("data", path) for path in data]
        if len({path.name for path in paths}) < len(paths):
            raise ArgumentError(
                "data: two files have one name; give them by the names that the ONNX file has"
            )
        return {path.name: path for path in paths}
    return {
        name: content if isinstance(content, bytes) else _file("data", content)
        for name, content in data.items()
    }


def _file(argument: str, path: PathText) -> Path:
    found = Path(fspath(path))
    if not found.is_file():
        raise ArgumentError(f"{argument}: there is no file {str(found)!r}")
    return found


def program_upload(program: ProgramLike) -> Upload:
    """Return the file that holds a program, for a request about it.

    Raises:
        ArgumentError: as `program_call`, or the program is a TEG document.
    """
    upload = program_call(program, None, None).upload
    if upload is None:
        raise ArgumentError("program: a TEG document is no file that shardings are written into")
    return upload


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
