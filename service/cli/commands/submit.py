"""`tapestry submit`: send programs, or a batch, to a service over HTTP, and follow what becomes of them."""

from __future__ import annotations

import os
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from tapestry.client import Client, ImportCancelledError, ImportRecord, ProblemError, ServiceError
from tapestry.optimizer.run.options import RunOptions
from tapestry.service.batches import Batch, BatchError, read_batch
from tapestry.service.cli.errors import FAILED, OK, CommandError
from tapestry.service.cli.options.searching import options_of
from tapestry.service.cli.output import print_json, print_table
from tapestry.service.cli.progress import Reporter, place_text, reporter
from tapestry.service.examples import model_beside
from tapestry.service.lifecycle import is_ended
from tapestry.teg.brief import counted
from tapestry.teg.faults import ArgumentError

BETWEEN_S = 2.0


def run(arguments: Namespace) -> int:
    """Send everything, then print the batch that the service has made of it."""
    batch, folder = _batch(arguments)
    key = arguments.key or os.environ.get("TAPESTRY_API_KEY")
    try:
        with Client(arguments.url, api_key=key) as client, reporter(arguments.quiet) as reported:
            graphs, unread = _sent(client, batch, folder, reported)
            if not graphs:
                raise CommandError("; ".join(unread.values()))
            found = client.submit_batch(
                list(graphs),
                [_mesh(mesh, folder) for mesh in batch.meshes],
                batch.seeds,
                name=", ".join(Path(file).name for file in arguments.files)[:1000],
                priority=arguments.priority,
                **_keywords(batch.options),
            )
            reported.note(f"batch {found['id']}: {counted(found['count'], 'run')}")
            if arguments.wait:
                found = _ended(client, found, reported)
    except (ServiceError, ArgumentError, ValueError) as error:
        raise CommandError(str(error)) from error
    document = {
        **found,
        "entries": [
            *({**entry, "model": graphs.get(entry["graph_id"])} for entry in found["entries"]),
            *_unread_entries(batch, unread),
        ],
    }
    if arguments.json:
        print_json(document)
    else:
        _print(document)
    return FAILED if any(entry["status"] in ("failed", "cancelled") for entry in document["entries"]) else OK


def _batch(arguments: Namespace) -> tuple[Batch, Path]:
    """Return the batch to send, and the folder that its files are named from."""
    files = [Path(file) for file in arguments.files]
    if any(file.suffix == ".toml" for file in files):
        if len(files) > 1 or arguments.mesh or arguments.dim:
            raise CommandError(
                "a batch says itself what to send: give BATCH.toml alone, without --mesh and --dim"
            )
        try:
            return read_batch(files[0]), files[0].parent
        except BatchError as error:
            raise CommandError(f"{files[0]}: {error}") from error
    if not arguments.mesh:
        raise CommandError("--mesh: say which mesh the programs are for")
    options = options_of(arguments)
    dimensions = {name: (size,) for name, size in arguments.dim}
    meshes = tuple(arguments.mesh)
    return Batch(tuple(map(str, files)), meshes, (options.seed,), dimensions, options), Path()


def _sent(
    client: Client, batch: Batch, folder: Path, reported: Reporter
) -> tuple[dict[str, str], dict[str, str]]:
    """Send every program in every size.

    Return the names of the programs by the ids of the graphs that the service made of them, and by its name the reason
    why a program could not be read.
    """
    graphs: dict[str, str] = {}
    unread: dict[str, str] = {}
    for number, model, sizes in _programs(batch):
        name = Path(model).name + "".join(f" {dim}={size}" for dim, size in sizes.items())
        try:
            shown = partial(_show_import, reported, name)
            graph = client.upload(model_beside(folder, model), dims=sizes, on_import=shown)
        except (ArgumentError, ProblemError, ImportCancelledError) as error:
            unread[name] = f"models[{number}] {model!r}: {error}"
            reported.note(unread[name])
            continue
        reported.note(f"{name} is graph {graph.id}")
        graphs.setdefault(graph.id, name)
    return graphs, unread


def _show_import(reported: Reporter, name: str, found: ImportRecord) -> None:
    """Print how far the import of a large program is."""
    place = "" if found.position is None else f", number {found.position:,} in the queue"
    reported.note(f"{name} is import {found.id}: {found.status}{place}")


def _programs(batch: Batch) -> list[tuple[int, str, dict[str, int]]]:
    sizes = [
        dict(zip(batch.dimensions, chosen, strict=True)) for chosen in product(*batch.dimensions.values())
    ]
    return [(number, model, chosen) for (number, model), chosen in product(enumerate(batch.models), sizes)]


def _unread_entries(batch: Batch, unread: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield the entries that were not sent, each with its problem."""
    for (model, reason), mesh, seed in product(unread.items(), batch.meshes, batch.seeds):
        problem = {"title": "Program cannot be read", "detail": reason}
        yield {
            **dict.fromkeys(("number", "graph_id", "run")),
            "model": model,
            "mesh": mesh,
            "seed": seed,
            "status": "failed",
            "problem": problem,
            "best": {},
        }


def _mesh(mesh: str, folder: Path) -> str | Path:
    return folder / mesh if Path(mesh).suffix == ".toml" else mesh


def _keywords(options: RunOptions) -> dict[str, Any]:
    """Return the options that differ from the defaults, but for the seed, as keywords of the client."""
    usual = RunOptions()
    given = {name: value for name, value in vars(options).items() if value != getattr(usual, name)}
    if options.seconds is None and (options.evaluations or options.deadline_seconds):
        given.pop("seconds", None)
    return {name: value for name, value in given.items() if name != "seed"}


def _ended(client: Client, found: Mapping[str, Any], reported: Reporter) -> dict[str, Any]:
    """Wait until all runs of a batch have ended."""
    shown: dict[str, int] = {}
    while True:
        now = client.batch(found["id"])
        if now["statuses"] != shown:
            shown = now["statuses"]
            text = ", ".join(f"{count} {status}" for status, count in shown.items())
            reported.note(text + _first_place(client, now["entries"]))
        if all(is_ended(entry["status"]) for entry in now["entries"]):
            return now
        time.sleep(BETWEEN_S)


def _first_place(client: Client, entries: Sequence[Mapping[str, Any]]) -> str:
    """Return where the first waiting run of a batch is in the queue, as the end of a line; nothing if none waits."""
    for entry in entries:
        if entry["status"] == "queued" and (place := client.run(entry["run"]).queue) is not None:
            return f"; the first that waits is {place_text(place.document, datetime.now(UTC))}"
    return ""


def _print(document: Mapping[str, Any]) -> None:
    objectives: Sequence[str] = list(
        dict.fromkeys(name for entry in document["entries"] for name in entry["best"])
    )
    print_table(
        ("program", "mesh", "seed", "run", "status", *objectives),
        [
            (
                *(entry["model"] or entry["graph_id"], entry["mesh"], str(entry["seed"])),
                *(entry["run"] or "", entry["status"]),
                *(f"{entry['best'][name]:.6g}" if name in entry["best"] else "" for name in objectives),
            )
            for entry in document["entries"]
        ],
    )
    for entry in document["entries"]:
        if entry["problem"]:
            print(f"{entry['model']} on {entry['mesh']}: {entry['problem'].get('detail', 'failed')}")
    print(f"batch {document['id']}")
