"""`tapestry verify`: a module that was made of a plan, read back in and compared with the user's program."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

import numpy as np

from tapestry.optimizer import canonicalize
from tapestry.optimizer.analysis.affordability import fits_in_memory
from tapestry.optimizer.analysis.lowered_verification import LoweredVerification, verify_lowered
from tapestry.service.cli.errors import FAILED, OK, CommandError
from tapestry.service.cli.output import print_json, quantity, verdict
from tapestry.service.cli.searching import open_store
from tapestry.service.store import StoreError, mesh_of
from tapestry.teg.brief import counted
from tapestry.teg.evaluate import random_inputs
from tapestry.teg.importers import ImportFailure


def run(arguments: Namespace) -> int:
    """Find the plan, read the module, run it on all devices, and print what differs."""
    if arguments.module.endswith(".py"):
        raise CommandError(
            f"{arguments.module!r} is a program; give the module that it lowers to: "
            f"python {arguments.module} --lower FILE (programs for JAX; add --cpu for virtual devices)"
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
        result = verify_lowered(plan, mesh, Path(arguments.module), graph, inputs)
    except ImportFailure as error:
        raise CommandError(" ".join(str(error).split())) from error
    if arguments.json:
        print_json({"plan": found.id, "module": arguments.module, "seed": arguments.seed, **result.to_json()})
    else:
        _print(result)
    for line in result.failures:
        print(f"tapestry: {arguments.module}: {line}", file=sys.stderr)
    return OK if result.ok else FAILED


def _print(result: LoweredVerification) -> None:
    print(f"{counted(result.devices, 'device')}, {counted(result.blocks, 'block')} in all")
    for sink, error in result.max_error.items():
        print(f"output {sink}: max|a-b| = {error:.2e} max|b|, on all devices")
    precision = "double precision" if result.double else "the program's own precision"
    print(f"computed in {precision}; equal up to {result.tolerance:.1e}")
    print(f"the module computes the program: {verdict(result.ok, 'yes', 'NO')}")
