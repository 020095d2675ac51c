"""The operations of both clients, each written once.

Each is a generator of steps (`client.calls`). As an attribute of a `Client` it is a method that returns the result, of
an `AsyncClient` one that is awaited; the types of both follow from the generator's.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, Unpack, overload

from tapestry.client.calls import Call, Follow, Pause, Reply, Steps, answered
from tapestry.client.errors import ImportCancelledError, ProblemError, RunFailedError
from tapestry.client.programs import (
    DataLike,
    MeshLike,
    ProgramLike,
    known_call,
    mesh_document,
    program_call,
    program_upload,
)
from tapestry.client.records import (
    EventRecord,
    FinishedSearch,
    Frontier,
    GraphRecord,
    ImportRecord,
    PlanDetail,
    RunDetail,
    RunRecord,
    SubmittedRun,
)
from tapestry.client.retrying import Retries
from tapestry.optimizer.run.options import OptionError, OptionKeywords, RunOptions, options_and_faults
from tapestry.teg.faults import joined, refuse

P = ParamSpec("P")
T = TypeVar("T")
ACCEPTED, UNPROCESSABLE = 202, 422
MOST_PER_PAGE = 200
FIRST_LOOK_S, LONGEST_LOOK_S = 0.2, 2.0  # between two looks at an import
SERVICE_OPTIONS = ("start_from", "verify", "execution_seconds")


class HasId(Protocol):
    """An object of the service that has an id, such as a run or a plan."""

    @property
    def id(self) -> str: ...


Reference = str | HasId
OnEvent = Callable[[EventRecord], object]
OnImport = Callable[[ImportRecord], object]


class RunKeywords(OptionKeywords, total=False):
    """The options of a run as keywords: those of `tapestry.optimize`, and those that the service carries out."""

    objectives: Any
    start_from: str | None
    verify: str
    execution_seconds: float


class Blocking:
    """A client whose operations return their results: its `carry_out` waits for each step."""


class Awaited:
    """A client whose operations are awaited: its `carry_out` lets other tasks go on."""


class operation(Generic[P, T]):  # noqa: N801  # a decorator
    """A decorator that makes a generator of steps a method of both clients."""

    def __init__(self, steps: Callable[Concatenate[Any, P], Steps[T]]) -> None:
        self.steps = steps
        self.__doc__ = steps.__doc__

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...
    @overload
    def __get__(self, client: Blocking, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: Awaited, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...

    def __get__(self, client: Any, owner: type) -> Any:
        if client is None:
            return self

        @wraps(self.steps)
        def method(*arguments: P.args, **keywords: P.kwargs) -> Any:
            return client.carry_out(self.steps(client, *arguments, **keywords))

        return method


class Operations:
    """The requests of a client to the service. Each is sent again where that may help (`Retries`)."""

    def __init__(self, retries: Retries | None) -> None:
        self.retries = retries or Retries()

    def _answered(self, call: Call) -> Steps[Reply]:
        return answered(call, self.retries)

    def _got(self, path: str) -> Steps[Any]:
        """Return the JSON at a path."""
        return json.loads((yield from self._answered(Call("GET", path))).content)

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
            found = yield from Operations.find_import.steps(self, found.id)
        if found.status == "failed":
            problem = found.problem or {}
            raise ProblemError(int(problem.get("status", UNPROCESSABLE)), problem)
        if found.status == "cancelled":
            raise ImportCancelledError(found.id)
        return (yield from Operations.graph.steps(self, str(found.graph_id)))

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
    def submit(
        self,
        graph: Reference,
        mesh: MeshLike,
        *,
        fresh: bool = False,
        priority: int = 0,
        idempotency_key: str | None = None,
        **options: Unpack[RunKeywords],
    ) -> Steps[SubmittedRun]:
        """Request a run; a worker of the service does it. The options are those of `tapestry.optimize`.

        `mesh` is a name of the catalog, the path of a TOML file or its fields. Where a run has answered an equal
        request, that run is returned (`reused`), unless `fresh` asks for another search. A run that waits or goes on is
        returned to all who make an equal request, for the idempotency key is made from the request; give one of your
        own to tell requests apart. Of the runs that wait, one of a higher `priority`, from -10 to 10, goes first.

        Raises:
            OptionError: an option that there is none of; near names are given.
            ProblemError: the request cannot be carried out (`faults` are all reasons), or too many wait.
        """
        body = run_body(id_of(graph), mesh, options)
        body |= ({"fresh": True} if fresh else {}) | ({"priority": priority} if priority else {})
        key = idempotency_key or (str(uuid.uuid4()) if fresh else content_key(body))
        submitted, is_replay = yield from self._submitted(body, key)
        if idempotency_key is None and is_replay and submitted.has_ended:
            # The run of this key is over: it may have failed, or be of another release. Ask as if for the first time.
            submitted, _ = yield from self._submitted(body, str(uuid.uuid4()))
        return submitted

    def _submitted(self, body: Mapping[str, Any], key: str) -> Steps[tuple[SubmittedRun, bool]]:
        call = Call("POST", "/v1/runs", json=body, headers={"Idempotency-Key": key})
        answer = yield from self._answered(call)
        is_replay = answer.headers.get("idempotent-replayed") == "true"
        return SubmittedRun.from_json(json.loads(answer.content)), is_replay

    @operation
    def submit_batch(
        self,
        graphs: Sequence[Reference],
        meshes: Sequence[MeshLike],
        seeds: Sequence[int] = (0,),
        *,
        name: str = "",
        fresh: bool = False,
        priority: int = 0,
        **options: Unpack[RunKeywords],
    ) -> Steps[dict[str, Any]]:
        """Request a run of every program on every mesh from every seed; return the batch as the API shows it.

        An entry that cannot be carried out has its `problem`, and the others are queued. Stored runs that have answered
        an equal request are taken, unless `fresh` asks for other searches.

        Raises:
            OptionError: an option that there is none of.
            ProblemError: the batch has another form than it should, or too many runs would wait.
        """
        own = {"graph_id", "mesh", "seed"}
        body = {key: value for key, value in run_body("", "", options).items() if key not in own}
        body |= {
            "graphs": [id_of(graph) for graph in graphs],
            "seeds": list(seeds),
            "name": name,
            "fresh": fresh,
            **({"priority": priority} if priority else {}),
        }
        body["meshes"] = [mesh_document(mesh) for mesh in meshes]
        call = Call("POST", "/v1/batches", json=body, headers={"Idempotency-Key": str(uuid.uuid4())})
        answer: dict[str, Any] = json.loads((yield from self._answered(call)).content)
        return answer

    @operation
    def batch(self, batch: str) -> Steps[dict[str, Any]]:
        """Return a batch by its id, with the present status and best values of its entries."""
        found: dict[str, Any] = yield from self._got(f"/v1/batches/{batch}")
        return found

    @operation
    def run(self, run: Reference) -> Steps[RunDetail]:
        """Return the status of a run, and all that is known of it but its plans."""
        return RunDetail.from_json((yield from self._got(f"/v1/runs/{id_of(run)}")))

    @operation
    def run_mesh(self, run: Reference) -> Steps[dict[str, Any]]:
        """Return the mesh of a run with all its figures, as it was when the run was submitted."""
        found: dict[str, Any] = yield from self._got(f"/v1/runs/{id_of(run)}/mesh")
        return found

    @operation
    def cancel(self, run: Reference) -> Steps[RunRecord]:
        """Ask for the end of a run, and return it; the plans found so far are kept.

        A run that has ended stays as it is.
        """
        call = Call("POST", f"/v1/runs/{id_of(run)}/cancel")
        try:
            answer = yield from self._answered(call)
        except ProblemError as problem:
            if problem.code != "already_ended":
                raise
            return (yield from Operations.run.steps(self, run))
        return RunRecord.from_json(json.loads(answer.content))

    @operation
    def set_priority(self, run: Reference, priority: int) -> Steps[RunRecord]:
        """Set the priority of a run that waits, from -10 to 10, and return it: the higher one goes first.

        Raises:
            ProblemError: it has ended (`already_ended`), or there is none (`unknown_id`).
        """
        call = Call("PATCH", f"/v1/runs/{id_of(run)}", json={"priority": priority})
        return RunRecord.from_json(json.loads((yield from self._answered(call)).content))

    @operation
    def label(
        self, run: Reference, *, tags: Sequence[str] | None = None, notes: str | None = None
    ) -> Steps[RunRecord]:
        """Give a run tags and notes in place of those before, and return it; what is None stays.

        Raises:
            ProblemError: neither is given, a tag has a comma (`invalid`), or there is no such run (`unknown_id`).
        """
        wanted = {"tags": None if tags is None else list(tags), "notes": notes}
        body = {name: value for name, value in wanted.items() if value is not None}
        call = Call("PATCH", f"/v1/runs/{id_of(run)}", json=body)
        return RunRecord.from_json(json.loads((yield from self._answered(call)).content))

    @operation
    def runs(
        self,
        search: str = "",
        *,
        sort: str = "-created",
        limit: int = 50,
        tag: str | None = None,
        mesh: str | None = None,
        status: str | None = None,
        batch: str | None = None,
    ) -> Steps[tuple[RunRecord, ...]]:
        """Return at most `limit` runs, the newest first.

        `search` are words of which each is in the program's or mesh's name, the id, a tag or the notes. `sort` is one
        of created, program, mesh, status, time and memory, ascending, or descending with `-` before it.

        Raises:
            ProblemError: there is no such order or status (`invalid`).
        """
        wanted = {
            "q": search or None,
            "sort": sort,
            "tag": tag,
            "mesh": mesh,
            "status": status,
            "batch": batch,
        }
        params = {name: value for name, value in wanted.items() if value is not None}
        found: list[RunRecord] = []
        while len(found) < limit:
            page = {**params, "limit": str(min(limit - len(found), MOST_PER_PAGE))}
            answer = yield from self._answered(Call("GET", "/v1/runs", params=page))
            document = json.loads(answer.content)
            found += [RunRecord.from_json(run) for run in document["items"]]
            if document["next"] is None:
                break
            params["cursor"] = document["next"]
        return tuple(found)

    @operation
    def delete_run(self, run: Reference) -> Steps[None]:
        """Delete a run that has ended, with its plans and executions.

        Raises:
            ProblemError: it has not ended, or is needed (`in_use`), or there is none (`unknown_id`).
        """
        yield from self._answered(Call("DELETE", f"/v1/runs/{id_of(run)}"))

    @operation
    def delete_batch(self, batch: str, *, runs: bool = False) -> Steps[None]:
        """Delete a batch, and with `runs` those of its runs that no other batch names.

        Raises:
            ProblemError: such a run has not ended (`in_use`), or there is no such batch.
        """
        yield from self._answered(Call("DELETE", f"/v1/batches/{batch}?runs={str(runs).lower()}"))

    @operation
    def delete_graph(self, graph: Reference) -> Steps[None]:
        """Delete a program that no run, batch or rewritten program needs.

        Raises:
            ProblemError: one does (`in_use`), or there is no such program.
        """
        yield from self._answered(Call("DELETE", f"/v1/graphs/{id_of(graph)}"))

    @operation
    def wait(
        self,
        run: Reference,
        on_event: OnEvent | None = None,
        *,
        timeout_seconds: float | None = None,
    ) -> Steps[RunDetail]:
        """Wait until a run has ended, and return it; a lost connection is resumed after the last event.

        `on_event` is called with each event, from the first one on. A cancelled run is returned as one that succeeded.
        `timeout_seconds` limits the wait; the run goes on, and may be waited for again.

        Raises:
            ArgumentError: a limit that is no number above 0.
            RunFailedError: the run has failed; the error has the reason.
            WaitTimeoutError: the run has not ended within the limit.
            UnreachableError: the connection is lost and does not come back. The run goes on.
        """
        given: object = timeout_seconds
        if given is not None and not (isinstance(given, (int, float)) and given > 0):
            refuse("timeout_seconds", "a number above 0", timeout_seconds)
        yield Follow(id_of(run), on_event, timeout_seconds)
        ended = yield from Operations.run.steps(self, run)
        if ended.status == "failed":
            raise RunFailedError(ended.id, ended.problem)
        return ended

    @operation
    def frontier(self, run: Reference) -> Steps[Frontier]:
        """Return the plans that a run has found, at any time."""
        return Frontier.from_json((yield from self._got(f"/v1/runs/{id_of(run)}/frontier")))

    @operation
    def optimize(
        self,
        program: ProgramLike,
        mesh: MeshLike,
        *,
        name: str | None = None,
        dims: Mapping[str, int] | None = None,
        data: DataLike = (),
        fresh: bool = False,
        priority: int = 0,
        on_event: OnEvent | None = None,
        on_import: OnImport | None = None,
        timeout_seconds: float | None = None,
        **options: Unpack[RunKeywords],
    ) -> Steps[FinishedSearch]:
        """Send a program, request a run, wait for its end and return its frontier.

        These are `upload`, `submit`, `wait` and `frontier`, with their arguments and errors.
        """
        graph = yield from Operations.upload.steps(
            self, program, name=name, dims=dims, data=data, on_import=on_import
        )
        submitted = yield from Operations.submit.steps(
            self, graph, mesh, fresh=fresh, priority=priority, **options
        )
        if submitted.reused:
            run = yield from Operations.run.steps(self, submitted)
        else:
            run = yield from Operations.wait.steps(self, submitted, on_event, timeout_seconds=timeout_seconds)
        frontier = yield from Operations.frontier.steps(self, run)
        return FinishedSearch(run, frontier, submitted.reused)

    @operation
    def plan(self, plan: Reference) -> Steps[PlanDetail]:
        """Return a plan with its placements, moves and executions."""
        return PlanDetail.from_json((yield from self._got(f"/v1/plans/{id_of(plan)}")))

    @operation
    def export(
        self,
        plan: Reference,
        to: str,
        parameters: Mapping[str, str | Sequence[str]] | None = None,
        program: ProgramLike | None = None,
    ) -> Steps[bytes]:
        """Return a plan in a format for other programs.

        `parameters` are further ones of the request, such as `{"device": ["0", "1"]}` of an explicit graph. `program`
        is the program that was searched, for the formats that are written into it (`shardy`).

        Raises:
            ArgumentError: there is no such file, or the program is no file.
            ProblemError: a format that there is none of; the fault lists all. Or the plan cannot be written so.
        """
        path, params = f"/v1/plans/{id_of(plan)}/export", {"to": to, **(parameters or {})}
        call = Call("GET", path, params=params)
        if program is not None:
            call = Call("POST", path, upload=program_upload(program), params=params)
        return (yield from self._answered(call)).content

    @operation
    def placements(self, plan: Reference) -> Steps[dict[str, Any]]:
        """Return the decisions of a plan: strategy, specs and prefetches of every block."""
        return dict(json.loads((yield from Operations.export.steps(self, plan, "placements"))))

    @operation
    def explicit_graph(self, plan: Reference) -> Steps[dict[str, Any]]:
        """Return the explicit graph of a plan as a TEG document: every block with its index range and device."""
        return dict(json.loads((yield from Operations.export.steps(self, plan, "teg"))))


def id_of(reference: Reference) -> str:
    """Return the id of an object of the service, or the id itself."""
    return reference if isinstance(reference, str) else reference.id


def run_body(graph_id: str, mesh: MeshLike, keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request for a run; options that have their defaults are left out.

    Raises:
        OptionError: an option that there is none of.
    """
    more = {name: keywords[name] for name in SERVICE_OPTIONS if name in keywords}
    plain = {name: value for name, value in keywords.items() if name not in more}
    options, faults = options_and_faults(RunOptions.as_given(more), plain, SERVICE_OPTIONS)
    if faults:
        raise OptionError(joined([fault.detail for fault in faults]))
    return {"graph_id": graph_id, "mesh": mesh_document(mesh), **options.to_request()}


def content_key(body: Mapping[str, Any]) -> str:
    """Return the idempotency key of a request: equal requests have equal ones."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
