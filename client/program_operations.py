"""The operations on programs: sending them, and what becomes of their imports."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress

from tapestry.client.calls import Call, Pause, Steps
from tapestry.client.errors import ImportCancelledError, ProblemError
from tapestry.client.operation import Reference, Requests, id_of, operation
from tapestry.client.programs import DataLike, ProgramLike, known_call, program_call
from tapestry.client.records import GraphRecord, ImportRecord

ACCEPTED, UNPROCESSABLE = 202, 422
FIRST_LOOK_S, LONGEST_LOOK_S = 0.2, 2.0  # between two looks at an import

OnImport = Callable[[ImportRecord], object]


class ProgramOperations(Requests):
    """The operations on programs and imports."""

    @operation
    def upload(
        self,
        program: ProgramLike,
        *,
        name: str | None = None,
        dims: Mapping[str, int] | None = None,
        data: DataLike = (),
        on_import: OnImport | None = None,
    ) -> Steps[GraphRecord]:
        """Send a program; equal programs are one graph of the service.

        A large program is read by a worker of the service: then `on_import` is called with each state of its import
        that differs from the one before, and the graph is returned when the import has ended.

        `program` is the path of a file (ONNX; by suffix StableHLO, PyTorch or a TEG document), its content as bytes or
        as a text of several lines, or a TEG document as a mapping. `dims` are sizes of dynamic dimensions. `data` is
        the external data of an ONNX file: paths, or paths and contents by the names by which the file refers to them.

        Raises:
            ArgumentError: there is no such file, or external data of a program that has none.
            ProblemError: it is no program; `faults` say where.
            ImportCancelledError: somebody has cancelled its import.
        """
        call = program_call(program, name, dims, data)
        if (known := known_call(call)) is not None:
            with suppress(ProblemError):  # not known, or the service is of an earlier release
                answer = yield from self._answered(known)
                return GraphRecord.from_json(json.loads(answer.content))
        answer = yield from self._answered(call)
        if answer.status == ACCEPTED:
            return (yield from self._imported(ImportRecord.from_json(json.loads(answer.content)), on_import))
        return GraphRecord.from_json(json.loads(answer.content))

    def _imported(self, found: ImportRecord, on_import: OnImport | None) -> Steps[GraphRecord]:
        """Wait until an import has ended, and return its graph."""
        pause_s, shown = FIRST_LOOK_S, None
        while True:
            if on_import is not None and found != shown:
                on_import(found)
            shown = found
            if found.has_ended:
                break
            yield Pause(pause_s)
            pause_s = min(pause_s * 1.5, LONGEST_LOOK_S)
            found = yield from ProgramOperations.find_import.steps(self, found.id)
        if found.status == "failed":
            problem = found.problem or {}
            raise ProblemError(int(problem.get("status", UNPROCESSABLE)), problem)
        if found.status == "cancelled":
            raise ImportCancelledError(found.id)
        return (yield from ProgramOperations.graph.steps(self, str(found.graph_id)))

    @operation
    def find_import(self, import_id: str) -> Steps[ImportRecord]:
        """Return the import of a large program by its id."""
        return ImportRecord.from_json((yield from self._got(f"/v1/imports/{import_id}")))

    @operation
    def cancel_import(self, import_id: str) -> Steps[ImportRecord]:
        """Ask for the end of an import, and return it.

        Raises:
            ProblemError: it has ended (`already_ended`), or there is none (`unknown_id`).
        """
        answer = yield from self._answered(Call("POST", f"/v1/imports/{import_id}/cancel"))
        return ImportRecord.from_json(json.loads(answer.content))

    @operation
    def graph(self, graph: Reference) -> Steps[GraphRecord]:
        """Return a program of the service."""
        return GraphRecord.from_json((yield from self._got(f"/v1/graphs/{id_of(graph)}")))

    @operation
    def delete_graph(self, graph: Reference) -> Steps[None]:
        """Delete a program that no run, batch or rewritten program needs.

        Raises:
            ProblemError: one does (`in_use`), or there is no such program.
        """
        yield from self._answered(Call("DELETE", f"/v1/graphs/{id_of(graph)}"))
