"""Tests of rounds (convention "rounds"): what runs in a loop, what may not and why, and that it computes the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapestry.hardware.simulator import simulate
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.check import check_placements
from tapestry.teg.sharding.expand import ComputeStep, ExplicitGraph, Slot, expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placements
from tapestry.teg.sharding.possible_rounds import possible_rounds, round_counts, rounds_fault, rounds_of
from tapestry.teg.sharding.rounds import Rounds, RoundsError, parse_rounds, time_axis
from tapestry.teg.sharding.text import placements_from_document, placements_to_document
from tapestry.teg.sharding.verify import verify
from tests.cases import examples
from tests.hardware.simulator.programs import mesh_of
from tests.teg.sharding.looped import (
    BATCH,
    in_rounds,
    random_looped,
    training,
    training_by_parts,
    training_by_terms,
)
from tests.teg.sharding.programs import MESHES

PAIR = MeshShape.of(gpu=2)


def test_a_training_step_has_two_loops_with_updates_after_them() -> None:
    time = time_axis(training(), in_rounds(4))
    assert time.slices == {
        **dict.fromkeys(("x", "wanted", "hidden", "active", "found", "error", "back", "gated", "scaled"), 0)
    }
    assert time.accumulated == {"squares": "sum", "step.w2": "sum", "step.w1": "sum"}
    assert time.levels["hidden"] == time.levels["squares"] == 1
    assert time.levels["scaled"] == time.levels["outputs"] == 3
    assert all(time.levels[site] % 2 == 0 for site in ("new.w1", "new.w2", "updated.w1", "loss"))


@pytest.mark.slow
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(MESHES),
    st.sampled_from((2, 3, 4, 8, BATCH)),
    st.sampled_from(("whole", "parts", "terms")),
)
@settings(max_examples=examples(60))
def test_random_plans_in_rounds_are_proven_and_compute_the_same(
    seed: int, mesh_shape: MeshShape, count: int, gradients: str
) -> None:
    graph = training_by_terms() if gradients == "terms" else training()
    if gradients == "parts" and count in (2, 4, 8):
        graph = training_by_parts(count)
    rng = np.random.default_rng(seed)
    explicit = expand(graph, random_looped(rng, graph, mesh_shape, in_rounds(count)), mesh_shape)
    assert verify(graph, explicit) == []
    inputs = random_inputs(graph, rng)
    found = simulate(explicit, mesh_of(mesh_shape), inputs).outputs
    for site, value in evaluate(graph, inputs).items():
        np.testing.assert_allclose(found[site], value, rtol=1e-9, atol=1e-9)


def test_a_loop_holds_slices_only() -> None:
    """Check the peak of one device, of which activations are most: it is near to that of a slice."""
    graph = training(batch=4096)
    peaks = [
        int(simulate(expand(graph, Placements({}, rounds=rounds), MeshShape.of(gpu=1)),
                     mesh_of(MeshShape.of(gpu=1)), dry=True).peak_memory_bytes.max())
        for rounds in (None, in_rounds(16))
    ]  # fmt: skip
    given = 8 * 4096 * (6 + 3)
    kept = 8 * 4096 * 3  # of `found`, which the second loop reads again
    # outputs are kept as well, and slices of what both loops make
    assert peaks[1] < peaks[0] - 8 * 4096 * 4
    assert peaks[1] < given + 2 * kept + 8 * 4096 * 24 // 16


def steps(explicit: ExplicitGraph, site: str) -> list[tuple[int, ComputeStep]]:
    return [(k, slot.step) for k, slot in enumerate(explicit.slots) if slot.step.site == site]


def with_step(explicit: ExplicitGraph, position: int, **changes: object) -> ExplicitGraph:
    slots = list(explicit.slots)
    slots[position] = replace(slots[position], step=replace(slots[position].step, **changes))  # type: ignore[arg-type]
    return replace(explicit, slots=tuple(slots))


def with_order(slots: tuple[Slot, ...], first: int, second: int) -> tuple[Slot, ...]:
    """Return slots with the first moved behind the second."""
    return (*slots[:first], *slots[first + 1 : second + 1], slots[first], *slots[second + 1 :])


def test_damage_to_a_loop_is_found() -> None:
    """Leave out a round, run one twice, forget to accumulate, accumulate by another monoid."""
    graph = training()
    explicit = expand(graph, Placements({}, rounds=in_rounds(3)), PAIR)
    assert verify(graph, explicit) == []
    (_, _), (position, second), (last, third) = steps(explicit, "step.w1")
    left_out = replace(explicit, slots=(*explicit.slots[:position], *explicit.slots[position + 1 :]))
    twice = with_step(explicit, last, index=second.index)
    forgotten = with_step(explicit, position, accumulates="")
    other = with_step(explicit, last, accumulates="max")
    late = replace(explicit, slots=with_order(explicit.slots, steps(explicit, "step.w1")[0][0], position))
    for damaged in (left_out, twice, forgotten, other, late):
        assert verify(graph, damaged)
    assert third.accumulates == "sum"


def test_a_waypoint_adds_the_terms_of_rounds() -> None:
    graph = training_by_terms()
    time = time_axis(graph, in_rounds(4))
    stations = [block for block in graph.blocks if block.operator == "waypoint"]
    assert time.terms == {station.inputs[0] for station in stations} == {"step.w1", "step.w2"}
    for station in stations:
        assert time.levels[station.site] == time.levels[graph.producers[station.inputs[0]].site] == 3
        assert station.site not in time.dims
        assert time.monoid_of(station) == "sum" and time.runs_of(station) == 4
    assert time.levels["new.w1"] == 4


def test_a_term_that_others_read_is_accumulated_before_its_waypoint() -> None:
    """Check that a gradient which is observed, too, is complete before anybody has it."""
    b = GraphBuilder("observed")
    x = b.source("x", (8, 4), "float32")
    (total,) = b.apply("contract", [x, x], site="total", labels=(("a", "b"), ("a", "b")), output=("b",))
    (passed,) = b.apply("waypoint", [total], site="passed")
    b.sink(total, site="seen")
    b.sink(passed, site="out")
    time = time_axis(b.build(), in_rounds(2))
    assert time.accumulated == {"total": "sum"} and not time.terms and time.levels["passed"] == 2


def test_damage_to_terms_is_found() -> None:
    """Leave out a term, add one twice, another round's, by another monoid, or none of them; read one as if complete."""
    graph = training_by_terms()
    explicit = expand(graph, Placements({}, rounds=in_rounds(3)), PAIR)
    assert verify(graph, explicit) == []
    ((station, _),) = graph.readers["step.w1"]
    (first, _), (position, second), (last, third) = steps(explicit, station.site)
    made, _ = steps(explicit, "step.w1")[-1]
    ((update, step),) = steps(explicit, "new.w1")
    term = next(r for r in third.reads)
    raw = replace(step.reads[1], buffer=term.buffer)
    damages = {
        "left out": replace(explicit, slots=(*explicit.slots[:position], *explicit.slots[position + 1 :])),
        "twice": with_step(explicit, last, reads=second.reads),
        "other monoid": with_step(explicit, last, accumulates="max"),
        "all by another monoid": with_step(
            with_step(with_step(explicit, first, accumulates="max"), position, accumulates="max"),
            last, accumulates="max",
        ),
        "forgotten": with_step(explicit, position, accumulates=""),
        "first round late": replace(
            explicit, slots=with_order(explicit.slots, first, position)
        ),
        "of a round": replace(
            explicit,
            buffers={k: replace(b, round=2) if k == station.outputs[0] else b for k, b in explicit.buffers.items()},
        ),
        "in place": with_step(explicit, made, accumulates="sum"),
        "read": with_step(explicit, update, reads=(step.reads[0], raw)),
    }  # fmt: skip
    assert [name for name, damaged in damages.items() if not verify(graph, damaged)] == []


def normalized(*axes: int) -> Graph:
    """Build a softmax over the batch (0), the features (1) or both."""
    b = GraphBuilder("normalized")
    (y,) = b.apply("softmax", [b.source("x", (8, 6), "float32")], site="soft", axes=axes)
    b.sink(y, site="y")
    return b.build()


def test_a_block_that_needs_the_whole_batch_is_named() -> None:
    time_axis(normalized(1), in_rounds(2))
    with pytest.raises(RoundsError, match="'soft'") as raised:
        time_axis(normalized(0), in_rounds(2))
    assert raised.value.site == "soft"


@pytest.mark.parametrize(
    ("rounds", "message"),
    [
        (Rounds(2, "y", 0), "the program has no input 'y'"),
        (Rounds(2, "x", 2), "input 'x' has 2 dimensions, no 2"),
        (Rounds(1, "x", 0), "there are 2 rounds or more, not 1"),
        (Rounds(5, "x", 0), "5 do not divide dimension 0 of 'x', which has 24 elements"),
        (Rounds(2, "x", 1), "input 'w1' is read in slices, but as parameter it belongs to all rounds"),
        (Rounds(2, "w1", 0), "input 'w1' is read in slices, but as parameter it belongs to all rounds"),
    ],
)
def test_what_is_impossible_says_why(rounds: Rounds, message: str) -> None:
    with pytest.raises(RoundsError, match=f"^no rounds: {message}$"):
        time_axis(training(), rounds)
    issues = check_placements(training(), Placements({}, rounds=rounds), PAIR)
    assert [(issue.path, message in issue.message) for issue in issues] == [("$.micro_batches", True)]
    with pytest.raises(ValueError, match="micro_batches"):
        expand(training(), Placements({}, rounds=rounds), PAIR)


def test_sums_that_need_each_other_again_and_again_are_refused() -> None:
    b = GraphBuilder("chain")
    x = b.source("x", (8, 4), "float32")
    for k in range(2):
        (total,) = b.apply(
            "contract", [x, x], site=f"total.{k}", labels=(("a", "b"), ("a", "b")), output=("b",)
        )
        (x,) = b.apply(
            "cell", [x, total], site=f"scaled.{k}", expr=("mul", ("input", 0), ("input", 1)),
            labels=(("a", "b"), ("b",)), dims=(("a", 8), ("b", 4)), dtype="float32",
        )  # fmt: skip
    b.sink(x, site="y")
    with pytest.raises(RoundsError, match="more than 2 times in a row") as raised:
        time_axis(b.build(), in_rounds(2))
    assert raised.value.site == "scaled.1"


def test_carried_state_is_there_for_all_rounds() -> None:
    b = GraphBuilder("counter")
    state = b.source("state", (8, 3), "float32", role="activation")
    (doubled,) = b.apply(
        "cell", [state], site="doubled", expr=("add", ("input", 0), ("input", 0)),
        labels=(("a", "b"),), dims=(("a", 8), ("b", 3)), dtype="float32",
    )  # fmt: skip
    b.sink(doubled, site="next", carries="state")
    with pytest.raises(RoundsError, match="'state' is read in slices"):
        time_axis(b.build(), in_rounds(2, "state"))


def test_possible_rounds_are_listed_once_by_what_they_run_through() -> None:
    graph = training()
    assert possible_rounds(graph) == [Rounds(BATCH, "x", 0)]
    assert round_counts(graph, Rounds(BATCH, "x", 0)) == [2, 3, 4, 6, 8, 12, 24]
    assert rounds_of(graph, 6) == [Rounds(6, "x", 0)]
    assert rounds_of(graph, 5) == []
    assert rounds_fault(graph, 6) == rounds_fault(graph, 1) == ""
    assert rounds_fault(graph, 5) == (
        "no plan of 'training' can run in 5 micro-batches; possible are 2, 3, 4, 6, 8, 12, 24 over x[0]"
    )
    assert "'soft'" in rounds_fault(normalized(0, 1), 2)


def test_sums_made_in_parts_run_in_as_many_rounds_as_there_are_parts() -> None:
    graph = training_by_parts(4)
    assert possible_rounds(graph) == [Rounds(4, "x", 0)]
    assert [n for n in (2, 3, 4, 6, 8) if rounds_of(graph, n)] == [2, 4]
    assert round_counts(graph, Rounds(2, "x", 0)) == [2, 4]
    assert rounds_fault(graph, 8).endswith("possible are 2, 4 over x[0]")
    time = time_axis(graph, in_rounds(4))
    partial = next(b for b in graph.blocks if b.site.startswith("step.w1~partial"))
    assert time.slices[partial.outputs[0]] == 0 and time.accumulated["step.w1"] == "sum"


@pytest.mark.parametrize("text", ["4 x x[0]", "12 x a name [1][2]"])
def test_rounds_have_a_text(text: str) -> None:
    assert str(parse_rounds(text)) == text
    assert parse_rounds("") is None


@pytest.mark.parametrize("text", ["4", "x[0]", "4 x x", "4 x x[-1]", "-4 x x[0]", "4 x x[0] "])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected micro-batches such as '4 x tokens"):
        parse_rounds(text)


def test_documents_of_placements_keep_rounds() -> None:
    placements = Placements({}, rounds=in_rounds(4))
    document = placements_to_document(placements)
    assert document["micro_batches"] == "4 x x[0]"
    assert placements_from_document(document) == placements
    assert "micro_batches" not in placements_to_document(Placements({}))
