"""Tests of the choice of what waits on the host: what the link has time for, in a chain whose times are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tapestry.costmodel.kernel_arrays import PEAK, TIME
from tapestry.costmodel.plan_space import PlanSpace
from tapestry.costmodel.unsharded import UnshardedCosts
from tapestry.hardware import Mesh, load_mesh
from tapestry.hardware.timing import TICKS_PER_S
from tapestry.optimizer.placement.host_copies import in_time, with_state_on_host
from tapestry.optimizer.structure.offloading import offloads, peak_of
from tapestry.rewrites import Move, apply_all
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.host import HOST
from tests.teg.sharding.looped import training
from tests.teg.sharding.pipelined import chain

LAYERS, ROWS = 12, 1 << 16
VALUE = ROWS * 64 * 4  # bytes of what a layer makes


def without_costs(graph: Graph) -> Graph:
    """Return a program whose blocks cost what the device makes of them."""
    blocks = [replace(b, definition=replace(b.definition, costs=None)) for b in graph.blocks]
    return graph.replace(blocks)


CHAIN = without_costs(chain(LAYERS, ROWS))


def device_with(link_bytes_per_s: float) -> Mesh:
    """Return a mesh of one device with a link of such a rate."""
    mesh = load_mesh("dgx-a100").part((("gpu", 1),))
    return replace(mesh, device=replace(mesh.device, host_bytes_per_s=link_bytes_per_s))


def forward_s(mesh: Mesh) -> float:
    """Return how long a layer takes forward."""
    return UnshardedCosts(mesh.device).by_site(CHAIN)["f1"].time_ticks / TICKS_PER_S


FORWARD_S = forward_s(device_with(1.0))


def chosen(mesh: Mesh, slowness: float = 1.0) -> tuple[Move, ...]:
    """Return the moves for the chain."""
    costs = UnshardedCosts(mesh.device)
    peak = peak_of(CHAIN, costs)
    assert peak is not None and peak.moves == ()
    return offloads(CHAIN, costs, mesh.device, slowness, peak.site)


def cost_of(graph: Graph, mesh: Mesh, is_in_time: bool = False) -> np.ndarray:
    space = PlanSpace(graph, mesh)
    genes = space.abstract_genes()
    return space.evaluate(in_time(space, genes) if is_in_time else genes)


def test_a_fast_link_carries_nearly_all_and_costs_no_time() -> None:
    mesh = device_with(10 * VALUE / FORWARD_S)
    moves = chosen(mesh)
    assert len(moves) >= LAYERS - 3 and moves[0].place == "f0"
    after = apply_all(CHAIN, moves).graph
    stored, waiting = cost_of(CHAIN, mesh), cost_of(after, mesh, is_in_time=True)
    assert waiting[TIME] == stored[TIME]
    assert stored[PEAK] - waiting[PEAK] >= (LAYERS - 5) * VALUE
    assert cost_of(after, mesh)[TIME] > stored[TIME]


def test_a_slow_link_carries_what_it_has_time_for() -> None:
    """Let a value take as long on the link as four layers forward; it comes back in the time of two backward."""
    mesh = device_with(VALUE / (4 * FORWARD_S))
    few, more, all_of_them = (chosen(mesh, slowness) for slowness in (1.0, 2.0, 1e9))
    assert 1 <= len(few) <= LAYERS / 4 and len(few) < len(more) < len(all_of_them)
    after = apply_all(CHAIN, few).graph
    assert cost_of(after, mesh, is_in_time=True)[TIME] == cost_of(CHAIN, mesh)[TIME]
    after = apply_all(CHAIN, all_of_them).graph
    assert cost_of(after, mesh, is_in_time=True)[TIME] > cost_of(CHAIN, mesh)[TIME]


def test_no_link_carries_what_takes_longer_than_the_program() -> None:
    assert chosen(device_with(VALUE / (100 * FORWARD_S))) == ()


def test_views_of_what_waits_are_shown_to_late_readers_only() -> None:
    """Check that a transposed view that the backward part reads does not keep its tensor on the device."""
    step = training(1 << 16, "float32")
    mesh = device_with(1e15)
    costs = UnshardedCosts(mesh.device)
    peak = peak_of(step, costs)
    assert peak is not None
    after = apply_all(step, peak.moves).graph
    moves = offloads(after, costs, mesh.device, 1e9, peak.site)
    assert all(move.rule == "offload" for move in moves)
    rewritten = apply_all(after, moves).graph
    assert cost_of(rewritten, mesh)[PEAK] <= cost_of(step, mesh)[PEAK]


@pytest.mark.parametrize("state", (False, True))
def test_only_state_that_is_carried_goes_to_the_host(state: bool) -> None:
    step, mesh = training(24, "float32", state=state), device_with(1e10)
    after = apply_all(step, [Move("offload", "active", "after 1")]).graph
    space = PlanSpace(after, mesh)
    genes = space.abstract_genes()
    genes.strategies[:] = with_state_on_host(space, genes.strategies)
    placements = space.placements(genes)
    on_host = {block.site for block in after.sources if placements.of(block).layout_of(0) == HOST}
    assert on_host == ({"w1", "w2"} if state else set())
    assert space.space.has_host
