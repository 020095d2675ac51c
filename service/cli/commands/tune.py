"""`tapestry tune`: search every entry of a batch, one after the other, and report all of them."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tapestry.optimizer.requests import ReadRequest, read_request
from tapestry.optimizer.run.clock import Deadline
from tapestry.optimizer.run.cluster import ClusterIslands
from tapestry.optimizer.run.plan import WORKERS_LOST
from tapestry.service.batch_report import EntryResult, entry_rows, prepare_folder, write_report
from tapestry.service.batches import Batch, BatchEntry, BatchError, read_batch
from tapestry.service.cli.cluster import on_cluster, tls_of
from tapestry.service.cli.errors import FAILED, INTERRUPTED, OK, CommandError
from tapestry.service.cli.output import print_json, print_table
from tapestry.service.cli.progress import Reporter, reporter
from tapestry.service.cli.searching import (
    Request,
    answered_before,
    open_store,
    search_and_check,
    starting_from,
    store_outcome,
)
from tapestry.service.examples import model_beside
from tapestry.service.priors import prior_for
from tapestry.service.store import Store, StoreError, mesh_to_document
from tapestry.service.verdicts import WORKERS_MISSING
from tapestry.teg.brief import counted


class Ended(Exception):
    """Error raised when a batch ends before its last entry; `last` is what the entry came to that was searched."""

    def __init__(self, last: EntryResult) -> None:
        self.last = last


def run(arguments: Namespace) -> int:
    """Carry out a batch; entries that stored runs have answered are not searched again."""
    tls_of(arguments)  # before anything takes time
    path = Path(arguments.batch)
    try:
        batch = read_batch(path)
    except BatchError as error:
        raise CommandError(f"{arguments.batch}: {error}") from error
    folder = Path(arguments.out) if arguments.out else path.parent / f"{path.stem}.report"
    try:
        prepare_folder(folder)
    except OSError as error:
        raise CommandError(
            f"the report cannot be written to {str(folder)!r}: {error.strerror or error}"
        ) from error
    store = open_store(arguments.database_url)
    try:
        with reporter(arguments.quiet) as reported, on_cluster(arguments, reported.note) as cluster:
            tuning = _Tuning(store, batch, path.parent, arguments.islands, reported, cluster)
            results, is_interrupted = tuning.run()
    finally:
        store.close()
    try:
        files = write_report(folder, f"Batch {path.name}", results)
    except OSError as error:
        print(
            f"tapestry: the report cannot be written to {str(folder)!r}: {error.strerror or error}",
            file=sys.stderr,
        )
        files = {}
    if arguments.json:
        print_json({"batch": str(path), "entries": [result.document() for result in results], "files": files})
    else:
        _print(results, files)
    if is_interrupted:
        print(
            f"tapestry: interrupted; run `tapestry tune {arguments.batch}` again to go on where it stopped",
            file=sys.stderr,
        )
        return INTERRUPTED
    return OK if files and all(result.status == "succeeded" for result in results) else FAILED


class _Tuning:
    """A batch that is carried out: entries that fail are named, and the others run."""

    def __init__(
        self,
        store: Store,
        batch: Batch,
        folder: Path,
        islands: int | None,
        reported: Reporter,
        cluster: ClusterIslands | None,
    ) -> None:
        self.store, self.folder, self.islands, self.reported = store, folder, islands, reported
        self.cluster = cluster
        self.entries = batch.entries()
        self.read: tuple[tuple[str, str, tuple[tuple[str, int], ...]], ReadRequest] | None = None
        self.searched_s: list[float] = []

    def run(self) -> tuple[list[EntryResult], bool]:
        """Carry out all entries; return what became of each, and whether Ctrl-C ended them before."""
        results: list[EntryResult] = []
        try:
            results.extend(map(self._entry, self.entries))  # those before an interruption stay
        except Ended as end:
            results.append(end.last)
            return self._with_pending(results), end.last.status == "cancelled"
        except KeyboardInterrupt:
            return self._with_pending(results), True
        return results, False

    def _with_pending(self, results: list[EntryResult]) -> list[EntryResult]:
        return [*results, *(EntryResult(entry, "pending") for entry in self.entries[len(results) :])]

    def _entry(self, entry: BatchEntry) -> EntryResult:
        began_s = time.monotonic()
        try:
            result = self._searched(entry)
        except CommandError as error:
            result = EntryResult(entry, "failed", problem=str(error))
        if not result.reused and result.run is not None:
            self.searched_s.append(time.monotonic() - began_s)
        where = f"{entry.number + 1} of {len(self.entries)}: {entry}"
        if result.problem:
            self.reported.note(f"{where} failed ({entry.place}): {result.problem}")
        else:
            known = "was answered before" if result.reused else f"took {self.searched_s[-1]:.0f} s"
            self.reported.note(f"{where} {known}{self._time_left(entry)}")
        return result

    def _time_left(self, entry: BatchEntry) -> str:
        left = len(self.entries) - entry.number - 1  # of which some may be answered, or have faults
        if not left or not self.searched_s:
            return ""
        seconds = left * sum(self.searched_s) / len(self.searched_s)
        shown = f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} s"
        return f"; {counted(left, 'run')} left, at most about {shown}"

    def _searched(self, entry: BatchEntry) -> EntryResult:
        request = self._request(entry)
        known = answered_before(self.store, request)
        if known is not None:
            return EntryResult(entry, known.summary.status, known, reused=True)
        outcome = search_and_check(request, self.reported)
        run_id = store_outcome(self.store, outcome)
        if run_id is None:
            raise CommandError("the database did not take the run")
        found = self.store.runs.find(run_id)
        if outcome.is_interrupted:
            raise Ended(EntryResult(entry, "cancelled", found))
        if outcome.result.stopped == WORKERS_LOST:
            self.reported.note(f"{entry}: {WORKERS_MISSING}")
            raise Ended(EntryResult(entry, "failed", found, WORKERS_MISSING))
        problem = "; ".join(outcome.checked.failures)
        return EntryResult(entry, "failed" if problem else found.summary.status, found, problem)

    def _request(self, entry: BatchEntry) -> Request:
        found = self._read(entry)
        if found.faults:
            raise CommandError("; ".join(f"{fault.pointer[1:]}: {fault.detail}" for fault in found.faults))
        assert found.graph is not None and found.mesh is not None
        options = found.options.changed(seed=entry.options.seed)
        limit = options.deadline_seconds
        try:
            prior = prior_for(self.store, options, mesh_to_document(found.mesh))
        except StoreError as error:
            raise CommandError(f"prior: {error}") from error
        starting = starting_from(self.store, options, found.graph, found.mesh)
        deadline = None if limit is None else Deadline.after(limit)
        return Request(
            found.graph, found.mesh, options, starting, deadline, prior=prior, cluster=self.cluster
        )

    def _read(self, entry: BatchEntry) -> ReadRequest:
        """Read program and mesh of an entry; those of the entry before are not read again for another seed."""
        key = (entry.model, entry.mesh, tuple(entry.dimensions.items()))
        if self.read is None or self.read[0] != key:
            options = entry.options if self.islands is None else entry.options.changed(islands=self.islands)
            found = read_request(
                model_beside(self.folder, entry.model),
                self._mesh(entry.mesh),
                options,
                dict(entry.dimensions),
            )
            self.read = key, found
        return self.read[1]

    def _mesh(self, mesh: str) -> str:
        beside = self.folder / mesh
        return str(beside) if beside.suffix == ".toml" and beside.exists() else mesh


def _print(results: Sequence[EntryResult], files: dict[str, str]) -> None:
    rows = entry_rows(results)
    sizes = [name for name in dict.fromkeys(key for row in rows for key in row) if name.startswith("dim_")]
    head = (
        "model",
        "mesh",
        *(name[4:] for name in sizes),
        "seed",
        "status",
        "objective",
        "best",
        "gap",
        "plan",
    )
    print_table(head, [[*_cells(row, sizes)] for row in rows])
    for result in results:
        if result.problem:
            print(f"{result.entry} failed ({result.entry.place}): {result.problem}")
    counts = Counter(result.status for result in results)
    kinds = [k for k in ("succeeded", "failed", "cancelled", "pending") if k != "cancelled" or counts[k]]
    print(f"{counted(len(results), 'run')}: {', '.join(f'{counts[kind]} {kind}' for kind in kinds)}")
    if files:
        print("report: " + ", ".join(files.values()))


def _cells(row: dict[str, Any], sizes: Sequence[str]) -> Sequence[str]:
    best = "" if row["best"] is None else f"{row['best']:.6g}"
    gap = "" if row["gap"] is None else f"{100 * row['gap']:.1f}%"
    return (
        *(Path(row["model"]).name, Path(row["mesh"]).name),
        *(str(row.get(name, "")) for name in sizes),
        *(str(row["seed"]), row["status"], row["objective"], best, gap, row["plan"] or ""),
    )
