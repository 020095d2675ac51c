"""`tapestry simulate` of a program already sharded and pinned: proven, run unchanged, and compared."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

import numpy as np

from tapestry.hardware import Mesh
from tapestry.hardware.simulator import PinnedRun, run_pinned
from tapestry.hardware.timing import seconds
from tapestry.optimizer.analysis.verification import TOLERANCE, relative_errors
from tapestry.service.cli.errors import FAILED, OK, CommandError
from tapestry.service.cli.output import print_json, print_table, verdict
from tapestry.service.cli.tensors import warn_of_unread, write_outputs
from tapestry.teg.arrays import arrays_named
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.graph import Graph
from tapestry.teg.interface import pack_inputs
from tapestry.teg.issues import listing
from tapestry.teg.readable import quantity
from tapestry.teg.sharding.external_graphs import ExternalProgram, verify_external


def run_explicit(
    graph: Graph, mesh: Mesh, arguments: Namespace, values: Mapping[str, np.ndarray] | None
) -> int:
    """Prove the shards, run them where they are pinned, and compare with the program that they shard.

    `values` are those of that program's inputs and weights; by default they are seeded.
    """
    found = verify_external(graph)
    try:
        run, error = _run(graph, mesh, found, arguments, values)
    except ValueError as refusal:
        raise CommandError(str(refusal)) from refusal
    good = found.abstract is not None and (error is None or error <= TOLERANCE)
    backend = "dry" if error is None else arguments.backend
    if arguments.json:
        print_json({**_document(graph, mesh, found, run, error), "backend": backend})
    else:
        _print(graph, mesh, found, run, error, backend)
    if found.abstract is None:
        print(f"tapestry: {listing('the shards do not verify', found.issues)}", file=sys.stderr)
    return OK if good else FAILED


def _run(
    graph: Graph,
    mesh: Mesh,
    found: ExternalProgram,
    arguments: Namespace,
    values: Mapping[str, np.ndarray] | None,
) -> tuple[PinnedRun, float | None]:
    """Return the run, and the largest relative difference of an output from the unsharded program's; None if dry."""
    if arguments.dry or found.abstract is None:
        return run_pinned(graph, mesh, dry=True, compute_dtype=arguments.compute_dtype), None
    if values is None:
        inputs = random_inputs(found.abstract, np.random.default_rng(arguments.seed))
    else:
        inputs = pack_inputs(found.abstract, values)
        warn_of_unread(found.abstract, values)
    xp = arrays_named(arguments.backend)
    run = run_pinned(graph, mesh, found.cut(inputs), compute_dtype=arguments.compute_dtype, xp=xp)
    outputs = found.joined(run.outputs)
    if arguments.outputs is not None:
        write_outputs(arguments.outputs, found.abstract, outputs)
    errors = relative_errors(outputs, evaluate(found.abstract, inputs))
    return run, max(errors.values(), default=0.0)


def _document(
    graph: Graph, mesh: Mesh, found: ExternalProgram, run: PinnedRun, error: float | None
) -> dict[str, Any]:
    return {
        "graph": graph.name,
        "mesh": mesh.name,
        "is_explicit": True,
        "abstract_hash": None if found.abstract is None else found.abstract.structural_hash,
        "issues": [{"kind": i.kind, "path": i.path, "text": str(i)} for i in found.issues],
        "time_s": float(seconds(run.makespan_ticks)),
        "traffic_bytes": run.traffic_bytes,
        "flops": run.flops.tolist(),
        "peak_memory_bytes": run.peak_memory_bytes.tolist(),
        "received_bytes": run.received_bytes.tolist(),
        "named_costs": dict(run.resources),
        "max_error": error,
    }


def _print(
    graph: Graph, mesh: Mesh, found: ExternalProgram, run: PinnedRun, error: float | None, backend: str
) -> None:
    print(f"{graph.name}, sharded as it came, on {mesh.name}, {backend}\n")
    rows = [
        (str(d), *(quantity(int(n), unit) for n, unit in zip(counts, ("flop", "B", "B"), strict=True)))
        for d, counts in enumerate(zip(run.flops, run.peak_memory_bytes, run.received_bytes, strict=True))
        if any(counts)
    ]
    print_table(("device", "work", "memory", "received"), rows, right=(1, 2, 3))
    print(f"\ntime {quantity(float(seconds(run.makespan_ticks)), 's')}")
    for resource, amount in run.resources.items():
        print(f"{resource} {amount}")
    print(f"sharding proven: {verdict(found.abstract is not None, 'yes', 'NO')}")
    if error is not None:
        print(f"outputs equal the unsharded program: {verdict(error <= TOLERANCE, 'yes', 'NO')}")
