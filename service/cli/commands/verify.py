"""`tapestry verify`: a module that was made of a plan, read back in and compared with the user's program."""

from __future__ import annotations

import ast
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np

from tapestry.optimizer import canonicalize
from tapestry.optimizer.analysis.affordability import fits_in_memory
from tapestry.optimizer.analysis.module_verification import (
    ModuleVerification,
    rank_count,
    verify_lowered,
    verify_recorded,
)
from tapestry.service.cli.errors import FAILED, OK, CommandError
from tapestry.service.cli.output import print_json, verdict
from tapestry.service.cli.searching import open_store
from tapestry.service.store import StoreError, mesh_of
from tapestry.teg.brief import counted
from tapestry.teg.evaluate import random_inputs
from tapestry.teg.importers import ImportFailure
from tapestry.teg.importers.torch.ranks.process import record
from tapestry.teg.readable import quantity


def run(arguments: Namespace) -> int:
    """Find the plan, read the module, run it on all devices, and print what differs."""
    path = Path(arguments.module)
    if path.suffix == ".py" and _is_for_jax(path):
        raise CommandError(
            f"{arguments.module!r} is a program for JAX; give the module that it lowers to: "
            f"python {arguments.module} --lower FILE (add --cpu for virtual devices)"
        )
    store = open_store(arguments.database_url)
    try:
        found = store.plans.find(arguments.plan)
        stored, plan = store.runs.find(found.run_id), store.plans.load(found.key)
        graph = store.graphs.load(stored.summary.graph_id)
        mesh = mesh_of(stored.mesh)
    except StoreError as error:
        raise CommandError(str(error)) from error
    finally:
        store.close()
    if not fits_in_memory([plan]):
        needed = quantity(plan.cost["total_memory_bytes"], "B")
        raise CommandError(f"the plan's devices hold {needed} in all, too much to compute here")
    graph = canonicalize(graph)
    inputs = random_inputs(graph, np.random.default_rng(arguments.seed))
    try:
        if path.suffix == ".py":
            ranks = record(path, rank_count(plan, mesh), arguments.backend)
            result = verify_recorded(plan, mesh, ranks, graph, inputs)
        else:
            result = verify_lowered(plan, mesh, path, graph, inputs)
    except ImportFailure as error:
        raise CommandError(" ".join(str(error).split())) from error
    if arguments.json:
        print_json({"plan": found.id, "module": arguments.module, "seed": arguments.seed, **result.to_json()})
    else:
        _print(result)
    for line in result.failures:
        print(f"tapestry: {arguments.module}: {line}", file=sys.stderr)
    return OK if result.ok else FAILED


def _is_for_jax(path: Path) -> bool:
    """Return whether a program imports JAX; what cannot be read or parsed is refused by who runs it."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(isinstance(n, ast.Import) and any(a.name == "jax" for a in n.names) for n in ast.walk(tree))


def _print(result: ModuleVerification) -> None:
    print(f"{counted(result.devices, 'device')}, {counted(result.blocks, 'block')} in all")
    for sink, error in result.max_error.items():
        print(f"output {sink}: max|a-b| = {error:.2e} max|b|, on all devices")
    precision = "double precision" if result.double else "the program's own precision"
    print(f"computed in {precision}; equal up to {result.tolerance:.1e}")
    print(f"the module computes the program: {verdict(result.ok, 'yes', 'NO')}")
