"""Programs read from files: the format is chosen by the ending of the name, gzip by `.gz`."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path

from tapestry.teg.arguments import PATH, SIZES, check_arguments, optional
from tapestry.teg.document import DocumentError, read_content
from tapestry.teg.faults import near_names
from tapestry.teg.graph import Graph
from tapestry.teg.importers import from_json, from_onnx, from_stablehlo, from_torch
from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.loom.reading import InvalidLoom
from tapestry.teg.validate import InvalidGraphError

STABLEHLO = (".mlir", ".mlir.gz", ".mlirbc")
PYTORCH = ".pt2"
ENDINGS = (".onnx", PYTORCH, ".json", ".json.gz", *STABLEHLO)


class GraphFileError(ValueError):
    """Error raised for a file that holds no readable program; the message is one line for the user."""


def read_program(
    path: str | PathLike[str],
    *,
    dims: Mapping[str, int] | None = None,
    external_data: str | PathLike[str] | None = None,
) -> Graph:
    """Read the program in a file: ONNX, StableHLO, PyTorch, a TEG or Loom document, by the ending of its name.

    `dims` are the sizes of symbolic dimensions of an ONNX or PyTorch file, `external_data` is the folder of an ONNX
    file's weights in other files.

    Raises:
        ArgumentError: arguments of another type.
        GraphFileError: no such file, another format, or a program that breaks a rule of the language.
    """
    given = {"path": path, "dims": dims, "external_data": external_data}
    check_arguments({"path": PATH, "dims": optional(SIZES), "external_data": optional(PATH)}, given)
    file = Path(path)
    shown = repr(fspath(path))
    _check_place(file, shown)
    try:
        return _read(file, shown, dims, external_data)
    except (InvalidLoom, DocumentError, InvalidGraphError) as error:
        raise GraphFileError(f"{shown}: {_first_issue(error)}") from error
    except ImportFailure as error:
        raise GraphFileError(" ".join(str(error).split())) from error
    except OSError as error:
        raise GraphFileError(f"cannot read {shown}: {error.strerror or error}") from error


def _check_place(file: Path, shown: str) -> None:
    if not file.exists():
        raise GraphFileError(f"there is no file {shown}{_similar(file)}")
    if file.is_dir():
        raise GraphFileError(
            f"{shown} is a folder; give an .onnx, .mlir or .pt2 file or a TEG document (.json, .json.gz)"
        )
    if not file.name.lower().endswith(ENDINGS):
        raise GraphFileError(f"{shown}: expected a file ending in {', '.join(ENDINGS)}")


def _similar(file: Path) -> str:
    """Return the programs beside a missing file that are called almost like it, as the end of a message."""
    try:
        beside = [entry.name for entry in file.parent.iterdir() if entry.name.lower().endswith(ENDINGS)]
    except OSError:
        return ""
    near = [str(file.parent / name) for name in near_names(file.name, beside, cutoff=0.7)]
    return f"; did you mean {' or '.join(near)}?" if near else ""


def _read(
    file: Path, shown: str, dims: Mapping[str, int] | None, external_data: str | PathLike[str] | None
) -> Graph:
    name = file.name.lower()
    if external_data is not None and not name.endswith(".onnx"):
        raise GraphFileError(
            f"{shown} keeps its data itself; external data (--external-data) is for ONNX files"
        )
    if name.endswith(".onnx"):
        return from_onnx(
            file, dims=dims, external_data=None if external_data is None else fspath(external_data)
        )
    if name.endswith(PYTORCH):
        return from_torch(file, dims=dims)
    if dims:
        raise GraphFileError(f"{shown} has fixed dimensions; dims (--dim) are for ONNX and PyTorch files")
    if name.endswith(STABLEHLO):
        return from_stablehlo(file)
    return from_json(read_content(file), name=file.name.partition(".json")[0])


def _first_issue(error: DocumentError | InvalidGraphError | InvalidLoom) -> str:
    heading = str(error).partition("\n")[0].partition(" (")[0]
    more = len(error.issues) - 1
    return f"{heading}: {error.issues[0]}" + (f" (and {more} more)" if more else "")
