"""Stored tensors as inputs and outputs of `tapestry simulate`."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np

from tapestry.hardware import Mesh
from tapestry.optimizer import Plan
from tapestry.service.cli.errors import CommandError
from tapestry.service.cli.searching import open_store
from tapestry.service.store import StoreError, TensorRequest, TensorValue
from tapestry.service.tensor_moves import HeldTensor, places_of
from tapestry.service.tensor_names import name_fault
from tapestry.teg.faults import joined, no_such
from tapestry.teg.graph import Graph
from tapestry.teg.interface import unpack_outputs
from tapestry.teg.sharding.stages import check_one_stage


@dataclass(frozen=True)
class GivenTensors:
    """The values that a user gives for inputs (None: none), and those of them that are stored tensors."""

    values: Mapping[str, np.ndarray] | None = None
    named: Mapping[str, HeldTensor] = field(default_factory=dict)


def with_stored(values: Mapping[str, np.ndarray] | None, arguments: Namespace) -> GivenTensors:
    """Add the stored tensors of --tensor to the values in files.

    Raises:
        CommandError: one is not there, or given twice, or nothing is to be computed.
    """
    if arguments.dry and (arguments.tensor or arguments.save):
        raise CommandError("--dry computes no values; leave --tensor and --save out")
    if not arguments.tensor:
        return GivenTensors(values)
    given, named = dict(values or {}), dict[str, HeldTensor]()
    store = open_store(arguments.database_url)
    try:
        for site, name in arguments.tensor:
            if site in given:
                raise CommandError(f"--tensor {site}={name}: {site!r} is given already; leave one out")
            tensor, value = store.tensors.load(name)
            given[site], named[site] = value.array, HeldTensor(name, tensor.place, tensor.load)
    except StoreError as error:
        raise CommandError(str(error)) from error
    finally:
        store.close()
    return GivenTensors(given, named)


def request_of(given: GivenTensors, arguments: Namespace) -> TensorRequest:
    """Return which values an execution used and stored, as it is stored with it."""
    files = [site for site in given.values or {} if site not in given.named]
    return TensorRequest(files, dict(arguments.tensor), dict(arguments.save))


def check_names(graph: Graph, arguments: Namespace) -> None:
    """Check the inputs of --tensor, and the outputs and names of --save, before anything is computed.

    Raises:
        CommandError: the program has no such inputs or outputs, or names that cannot be stored; all are listed.
    """
    inputs, outputs = [s.site for s in graph.sources], [s.site for s in graph.sinks]
    faults = [no_such("input", site, inputs) for site, _ in arguments.tensor if site not in inputs]
    faults += [no_such("output", site, outputs) for site, _ in arguments.save if site not in outputs]
    faults += [fault for _, name in arguments.save if (fault := name_fault(name))]
    times = Counter(name for _, name in arguments.save)
    faults += [f"two outputs would be stored as {name!r}" for name, count in times.items() if count > 1]
    if faults:
        raise CommandError(joined(faults))


def check_places(plan: Plan, arguments: Namespace) -> None:
    """Check that a plan has places for the tensors of --tensor and --save, before anything is computed.

    Raises:
        CommandError: it has stages.
    """
    try:
        if arguments.tensor or arguments.save:
            check_one_stage(plan.placements.stages, "--tensor and --save: a stored tensor")
    except ValueError as error:
        raise CommandError(str(error)) from error


def save_outputs(arguments: Namespace, plan: Plan, mesh: Mesh, outputs: Mapping[str, np.ndarray]) -> None:
    """Store the outputs of --save under their names, in the places where the plan leaves them."""
    if not arguments.save:
        return
    whole = unpack_outputs(plan.graph, outputs)
    places = places_of(plan, mesh, [site for site, _ in arguments.save])
    store = open_store(arguments.database_url)
    try:
        store.tensors.put(
            {name: TensorValue.of(whole[site]) for site, name in arguments.save},
            datetime.now(UTC),
            {name: places[site] for site, name in arguments.save},
        )
    except StoreError as error:
        raise CommandError(str(error)) from error
    finally:
        store.close()
