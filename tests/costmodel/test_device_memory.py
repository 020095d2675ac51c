"""Tests of the terms of what a device holds: they add up to the objective, and are left out where one is unknown."""

from dataclasses import replace

import pytest

from tapestry.costmodel.device_memory import device_memory_terms
from tapestry.costmodel.plan_space import PlanSpace
from tapestry.hardware import load_mesh, mesh_names
from tapestry.optimizer.archive.report import costs_of
from tests.costmodel.programs import product_of


@pytest.mark.parametrize("name", ["2x-dgx-h100", "tpu-v4-2x2x2", "galaxy-4x8"])
def test_the_terms_add_up_to_the_objective(name: str) -> None:
    mesh = load_mesh(name)
    space = PlanSpace(product_of(8, 8, 8), mesh)
    cost = costs_of(space.evaluate(space.abstract_genes()), mesh)

    terms = device_memory_terms(cost, mesh.device)

    assert sum(terms.values()) == cost["device_memory_bytes"]
    assert terms["peak_memory_bytes"] == cost["peak_memory_bytes"]
    assert terms["context_bytes"] == mesh.device.context_bytes
    assert terms["communicator_bytes"] == len(mesh.axes) * mesh.device.require("communicator_bytes")


def test_unknown_figures_and_costs_without_the_sum_have_no_terms() -> None:
    device = load_mesh("dgx-h100").device
    cost = {"peak_memory_bytes": 1, "device_memory_bytes": 2}
    assert device_memory_terms(cost, replace(device, workspace_bytes=None)) == {}
    assert device_memory_terms({"peak_memory_bytes": 1}, device) == {}


@pytest.mark.parametrize("name", mesh_names())
def test_what_a_process_takes_leaves_most_of_the_memory_to_tensors(name: str) -> None:
    mesh = load_mesh(name)
    device = mesh.device
    beside = sum(device.require(f"{term}_bytes") for term in ("context", "workspace", "allocator"))
    assert beside + len(mesh.axes) * device.require("communicator_bytes") < device.memory_bytes / 10
