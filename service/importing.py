"""Uploaded programs are read and stored: at once in a process of the API's task pool, or as a job of a worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from tapestry.costmodel.known_objectives import known_objectives
from tapestry.costmodel.resources import ResourceError
from tapestry.service.archives import ZIP, unpack
from tapestry.service.graphs import summarize
from tapestry.service.problems import MOST_FAULTS, TITLES, problem
from tapestry.service.store import ImportRequest, TenantStore
from tapestry.service.temporary import is_full
from tapestry.teg.document import DocumentError
from tapestry.teg.faults import Fault, escape
from tapestry.teg.graph import Graph
from tapestry.teg.importers import ImportFailure, from_json, from_onnx, from_stablehlo, from_torch
from tapestry.teg.importers.failure import IN_PYTHON, ExternalDataError
from tapestry.teg.importers.files import PYTORCH, STABLEHLO
from tapestry.teg.importers.loom.reading import InvalidLoom
from tapestry.teg.printable import is_printable
from tapestry.teg.validate import InvalidGraphError

LONGEST_NAME = 200


class UploadRefusal(NamedTuple):
    """The answer to an upload that is no program: an HTTP status, the code of the problem, and its faults."""

    status: int
    code: str
    detail: str
    faults: tuple[Fault, ...]

    def to_json(self) -> dict[str, Any]:
        """Convert to a problem document."""
        errors = [fault.to_json() for fault in self.faults]
        return problem(self.code, TITLES[self.status], self.detail, status=self.status, errors=errors)


@dataclass(frozen=True)
class SaveResult:
    """The result of storing an uploaded program: its id, or the faults for which it was refused."""

    id: str = ""
    is_new: bool = False
    faults: tuple[Fault, ...] = ()
    is_too_large: bool = False

    @property
    def refusal(self) -> UploadRefusal | None:
        """The refusal of the upload; None for one that was stored."""
        if not self.faults:
            return None
        status, code = (413, "too_large") if self.is_too_large else (422, "invalid_graph")
        return UploadRefusal(status, code, f"this is no program: {self.faults[0].detail}", self.faults)


def save_upload(program: Path, folder: Path, request: ImportRequest, store: TenantStore) -> SaveResult:
    """Store the program in a private file, or the reasons why there is none in it.

    No other file is read, but those in a private `folder`: external data, or what an archive is unpacked to.
    """
    if request.is_document:
        return _save(lambda: from_json(program.read_bytes(), max_bytes=request.most_bytes), request, store)
    return _save(lambda: _program(program, folder, request), request, store)


def _program(file: Path, folder: Path, request: ImportRequest) -> Graph:
    dims, name = request.dims, request.name
    if request.suffix == ZIP or request.data:
        program = unpack(file, folder, request.most_bytes) if request.suffix == ZIP else file
        beside = program.parent if request.suffix == ZIP else folder
        try:
            return from_onnx(program.read_bytes(), dims=dims, name=name, external_data=beside)
        except ImportFailure as error:
            # The private folder is nobody's business.
            message = str(error).replace(
                f"which is no file inside {str(beside)!r}", "which was not sent along"
            )
            raise ImportFailure(message) from None
    if request.suffix == PYTORCH:
        try:
            return from_torch(file, dims=dims, name=name)
        except ImportFailure as error:
            # The private file is nobody's business.
            raise ImportFailure(str(error).replace(str(file), name)) from None
    if request.suffix in STABLEHLO:
        if dims:
            raise ImportFailure("a StableHLO program has fixed dimensions; 'dims' is for ONNX and PyTorch")
        return from_stablehlo(file.read_bytes(), name=name)
    return from_onnx(file.read_bytes(), dims=dims, name=name)


def _save(read: Callable[[], Graph], request: ImportRequest, store: TenantStore) -> SaveResult:
    """Store a program. Input from outside may break its reader in any way: each failure is a fault of the input."""
    where, most = "" if request.is_document else "/file", request.most_blocks
    try:
        graph = read()
        if len(graph.blocks) > most:
            message = f"the program has {len(graph.blocks):,} blocks; at most {most:,} are accepted here"
            return SaveResult(faults=(Fault(where, message),), is_too_large=True)
        if not is_printable(graph.name) or len(graph.name) > LONGEST_NAME:
            message = f"its name is not printable, or has more than {LONGEST_NAME} characters"
            return SaveResult(faults=(Fault(where or "/name", message),))
        known_objectives(graph)  # refuses resources that are named like something else
        summary = summarize(graph).to_json()
    except ResourceError as error:
        return SaveResult(faults=(Fault(where or "/definitions", str(error)),))
    except (DocumentError, InvalidGraphError, InvalidLoom) as error:
        found = (Fault(pointer_of(i.path), f"{i.message}; {i.expected}") for i in error.issues[:MOST_FAULTS])
        return SaveResult(faults=tuple(found))
    except ExternalDataError as error:
        message = (
            f"the data of {error.where} lies in another file, {error.location[:80]!r}; send it along as a part `data` "
            "of that name (-F data=@FILE), or send a .zip of the program and its data"
        )
        return SaveResult(faults=(Fault(where, message),))
    except ImportFailure as error:
        # The importer speaks to people at a command line.
        message = " ".join(str(error).split()).partition(IN_PYTHON)[0].replace("--dim ", "-F dims=")
        return SaveResult(faults=(Fault(where, message),))
    except Exception as error:
        if isinstance(error, MemoryError) or is_full(error):
            raise  # what is wrong is this process or this machine, not the file
        message = f"its reader broke on it ({type(error).__name__}: {str(error)[:200]}); is the file whole?"
        return SaveResult(faults=(Fault(where, " ".join(message.split())),))
    saved = store.graphs.save(graph, datetime.now(UTC), summary)
    return SaveResult(saved.id, saved.is_new)


def pointer_of(path: str) -> str:
    """Convert a JSON path such as `$.blocks[12].inputs[0]` or `$['a b']` to a JSON pointer (RFC 6901)."""
    pointer, rest = "", path.removeprefix("$")
    while rest:
        if rest.startswith("['"):
            name, k = "", 2
            while rest[k] != "'":
                k += rest[k] == "\\"
                name += rest[k]
                k += 1
            pointer, rest = f"{pointer}/{escape(name)}", rest[k + 2 :]
        elif rest.startswith("["):
            number, _, rest = rest[1:].partition("]")
            pointer = f"{pointer}/{number}"
        else:
            end = min((k for k, c in enumerate(rest[1:], 1) if c in ".["), default=len(rest))
            pointer, rest = f"{pointer}/{escape(rest[1:end])}", rest[end:]
    return pointer
