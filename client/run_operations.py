"""The operations on runs and batches: requesting, waiting for, finding, changing and deleting them."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack

from tapestry.client.calls import Call, Follow, Steps
from tapestry.client.errors import ProblemError, RunFailedError
from tapestry.client.operation import Reference, Requests, id_of, operation
from tapestry.client.programs import MeshLike, mesh_document
from tapestry.client.records import EventRecord, Frontier, RunDetail, RunRecord, SubmittedRun
from tapestry.optimizer.run.options import OptionError, OptionKeywords, RunOptions, options_and_faults
from tapestry.teg.faults import joined, refuse

MOST_PER_PAGE = 200
SERVICE_OPTIONS = ("start_from", "verify", "execution_seconds")

OnEvent = Callable[[EventRecord], object]


class RunKeywords(OptionKeywords, total=False):
    """The options of a run as keywords: those of `tapestry.optimize`, and those that the service carries out."""

    objectives: Any
    start_from: str | None
    verify: str
    execution_seconds: float


class RunOperations(Requests):
    """The operations on runs and batches."""

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
            return (yield from RunOperations.run.steps(self, run))
        return RunRecord.from_json(json.loads(answer.content))

    @operation
    def set_priority(self, run: Reference, priority: int) -> Steps[RunRecord]:
        """Set the priority of a run that waits, from -10 to 10, and return it: the higher one goes first.

        Raises:
            ProblemError: it has ended (`already_ended`), or there is none (`unknown_id`).
        """
        return (yield from self._changed(run, {"priority": priority}))

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
        return (yield from self._changed(run, body))

    def _changed(self, run: Reference, change: Mapping[str, Any]) -> Steps[RunRecord]:
        call = Call("PATCH", f"/v1/runs/{id_of(run)}", json=change)
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
        ended = yield from RunOperations.run.steps(self, run)
        if ended.status == "failed":
            raise RunFailedError(ended.id, ended.problem)
        return ended

    @operation
    def frontier(self, run: Reference) -> Steps[Frontier]:
        """Return the plans that a run has found, at any time."""
        return Frontier.from_json((yield from self._got(f"/v1/runs/{id_of(run)}/frontier")))


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
