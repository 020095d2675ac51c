"""Tests of stages: where they lie, in which order they work, what is refused and why, and proofs of plans with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tapestry.teg.builder import GraphBuilder
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.check import check_placements
from tapestry.teg.sharding.copies import CopyPlan
from tapestry.teg.sharding.expand import CopyStep, ExplicitGraph, Slot, expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.spec import WHOLE
from tapestry.teg.sharding.stages import Route, StageLayout, Stages, parse_stages
from tapestry.teg.sharding.strategy import Strategy
from tapestry.teg.sharding.text import placements_from_document, placements_to_document
from tapestry.teg.sharding.turns import ScheduleError, StagePiece, pipeline_order
from tapestry.teg.sharding.verify import verify
from tests.cases import rotating
from tests.teg.sharding.looped import in_rounds, training
from tests.teg.sharding.pipelined import chain, drawn, in_parts, one_layer_each

EIGHT = MeshShape.of(gpu=8)
GRID = MeshShape.of(node=2, gpu=4)
CUBE = MeshShape.of(x=2, y=2, z=2)


# Texts.


BY_HAND = "f0 f1 b0 b1 | f0 b0 f1 b1"


@pytest.mark.parametrize(
    "text",
    ["4 x 1f1b", "12 x gpipe", "2 x interleaved", "3 x something-else", f"2 x {BY_HAND}", "1 x f0 f0@1 w0"],
)
def test_stages_have_a_text(text: str) -> None:
    assert str(parse_stages(text)) == text
    assert parse_stages("") is None


@pytest.mark.parametrize(
    "text",
    ["4", "1f1b", "4 x", "x 1f1b", "-4 x 1f1b", "4 x 1F1B", "4 x 1f1b ", "4x1f1b", "2 x f0 | ", "2 x f0 |b0"],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected stages such as '4 x 1f1b', .* gpipe, 1f1b, interleaved"):
        parse_stages(text)


def test_documents_of_placements_keep_stages_and_parts() -> None:
    whole = Strategy((WHOLE, WHOLE, WHOLE))
    blocks = {"hidden": Placement(whole), "found": Placement(whole, part=1)}
    placements = Placements(blocks, devices="gpu:2", stages=Stages(2, "gpipe"), rounds=in_rounds(4))
    document = placements_to_document(placements)
    assert document["stages"] == "2 x gpipe"
    assert "part" not in document["blocks"]["hidden"]
    assert document["blocks"]["found"]["part"] == 1
    assert placements_from_document(document) == placements
    assert "stages" not in placements_to_document(Placements({}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stages": "two"}, "expected stages such as '4 x 1f1b'"),
        ({"stages": 2}, r"\$.stages: 2; expected a text"),
        ({"blocks": {"a": {"strategy": "()", "part": 1.5}}}, "1.5; expected an integer, the part of the pip"),
        (
            {"blocks": {"a": {"strategy": "()", "part": True}}},
            "True; expected an integer, the part of the pip",
        ),
    ],
)
def test_documents_with_other_stages_or_parts_are_refused(change: dict[str, Any], message: str) -> None:
    document = placements_to_document(Placements({})) | change
    with pytest.raises(ValueError, match=message):
        placements_from_document(document)


# Where stages lie.


@pytest.mark.parametrize(
    ("mesh_shape", "stage", "count", "devices"),
    [
        (EIGHT, "gpu:2", 4, [[0, 1], [2, 3], [4, 5], [6, 7]]),
        (EIGHT, "gpu:1", 3, [[0], [1], [2]]),
        (GRID, "", 1, [[0, 1, 2, 3, 4, 5, 6, 7]]),
        (GRID, "node:1", 2, [[0, 1, 2, 3], [4, 5, 6, 7]]),
        (GRID, "node:1,gpu:2", 3, [[0, 1], [2, 3], [4, 5]]),
        (GRID, "gpu:2", 2, [[0, 1, 4, 5], [2, 3, 6, 7]]),
        (GRID, "gpu:1", 3, [[0, 4], [1, 5], [2, 6]]),
        (CUBE, "y:1", 2, [[0, 1, 4, 5], [2, 3, 6, 7]]),
        (CUBE, "x:1,z:1", 4, [[0, 2], [1, 3], [4, 6], [5, 7]]),
    ],
)
def test_stages_lie_side_by_side(
    mesh_shape: MeshShape, stage: str, count: int, devices: list[list[int]]
) -> None:
    layout = StageLayout(mesh_shape, mesh_shape.part(stage), count)
    assert layout.devices.tolist() == devices
    assert layout.device_count == len(set(layout.devices.reshape(-1).tolist())) == layout.devices.size
    numbers = np.arange(layout.device_count)
    assert [len(numbers[layout.rows(k)]) for k in range(count)] == [len(devices[0])] * count
    places = mesh_shape.axis_coordinates[layout.devices]
    assert (places.min(axis=1) % [size for _, size in mesh_shape.part(stage).axes] == 0).all()
    assert ((np.ptp(places, axis=1) + 1) == [size for _, size in mesh_shape.part(stage).axes]).all()


@pytest.mark.parametrize(
    ("mesh_shape", "stage", "count", "pair", "route"),
    [
        (EIGHT, "gpu:1", 8, (0, 1), Route("gpu", 1)),
        (EIGHT, "gpu:1", 8, (5, 2), Route("gpu", 3)),
        (EIGHT, "gpu:2", 4, (0, 1), Route("gpu", 2)),
        (EIGHT, "gpu:2", 4, (1, 0), Route("gpu", 2)),
        (EIGHT, "gpu:2", 4, (0, 3), Route("gpu", 4)),  # half of the axis at most
        (GRID, "node:1,gpu:2", 4, (0, 1), Route("gpu", 2)),
        (GRID, "node:1,gpu:2", 4, (1, 2), Route("node", 1)),
        (GRID, "node:1,gpu:2", 4, (0, 2), Route("node", 1)),
        (GRID, "gpu:2", 2, (0, 1), Route("gpu", 2)),
        (CUBE, "x:1,z:1", 4, (0, 1), Route("z", 1)),
        (CUBE, "x:1,z:1", 4, (3, 0), Route("x", 1)),
    ],
)
def test_a_way_crosses_the_slowest_axis_on_which_stages_differ(
    mesh_shape: MeshShape, stage: str, count: int, pair: tuple[int, int], route: Route
) -> None:
    assert StageLayout(mesh_shape, mesh_shape.part(stage), count).route(*pair) == route


# What is refused.


def plan(parts: dict[str, int], stages: Stages | None, devices: str = "gpu:2") -> Placements:
    whole = Strategy((WHOLE, WHOLE, WHOLE))
    blocks = {site: Placement(whole, part=part) for site, part in parts.items()}
    return Placements(blocks, devices=devices, stages=stages)


@pytest.mark.parametrize(
    ("placements", "path", "message", "expected"),
    [
        (
            plan({}, Stages(5)),
            "$.stages",
            "5 stages of 2 devices (gpu:2) share devices: the mesh has 8, room for 4",
            "give stages of fewer devices, or fewer stages",
        ),
        (
            plan({}, Stages(2), ""),
            "$.stages",
            "2 stages of 8 devices (gpu:8) share devices: the mesh has 8, room for 1",
            "give stages of fewer devices, or fewer stages",
        ),
        (plan({}, Stages(0)), "$.stages", "there are 0 stages", "give 1 stage or more"),
        (plan({}, Stages(4, "1f1c")), "$.stages", "unknown stages '1f1c'", "did you mean 1f1b?"),
        (
            plan({}, Stages(4, BY_HAND)),
            "$.stages",
            "the schedule has the turns of 2 stages, not of 4",
            "give each stage its turns",
        ),
        (
            plan({}, Stages(2, "f0 g1 | f0 b0")),
            "$.stages",
            "stage 0 has 'g1', which is no turn such as f0, b3, w3 or f0@2",
            "give each stage its turns",
        ),
        (
            plan({"hidden": 3, "found": 4}, Stages(4)),
            "$.stages",
            "5 parts for 4 stages",
            "only interleaved stages have several parts each",
        ),
        (
            plan({"hidden": 0, "found": 2}, None),
            "$.blocks.found",
            "block 'found' is in part 2 of a pipeline",
            "state the stages of the plan",
        ),
        (
            plan({"hidden": 0, "found": -1}, None),
            "$.blocks.found",
            "block 'found' is in part -1 of a pipeline",
            "state the stages of the plan",
        ),
        (
            plan({"hidden": 0, "found": -1}, Stages(4)),
            "$.blocks.found",
            "block 'found' is in part -1",
            "parts are numbered from 0",
        ),
    ],
)
def test_what_is_impossible_says_why(placements: Placements, path: str, message: str, expected: str) -> None:
    (issue,) = check_placements(training(), placements, EIGHT)
    assert (issue.path, issue.message) == (path, message)
    assert expected in issue.expected
    with pytest.raises(ValueError, match="the placements do not fit the graph and the mesh"):
        expand(training(), placements, EIGHT)


def test_several_parts_for_a_stage_are_interleaved() -> None:
    placements = plan({"hidden": 3, "found": 5}, Stages(4, "interleaved"))
    assert check_placements(training(), placements, EIGHT) == []
    steps = {slot.step.site: slot.step.stage for slot in expand(training(), placements, EIGHT).slots}
    assert (steps["hidden"], steps["found"], steps["error"]) == (3, 1, 0)


# Turns.


def orders(program: ExplicitGraph, kinds: str = "fb") -> list[str]:
    """Return what each stage does of a chain: `F2` is forward in round 2, `B2` back; parts of its own are a, b, ...

    `D2` is the gradient of a weight, if that is among the `kinds`.
    """
    assert program.stages is not None
    count = program.stages.count
    found: list[list[str]] = [[] for _ in range(count)]
    several = any(slot.step.site == f"f{count}" for slot in program.slots)
    for step in (slot.step for slot in program.slots):
        if step.site[0] in kinds:
            own = "abcd"[int(step.site[1:]) // count] if several else ""
            found[step.stage].append(f"{step.site[0].upper()}{step.round}{own}")
    return [" ".join(each) for each in found]


def schedule(stages: Stages, parts: int, rounds: int) -> list[str]:
    graph = chain(parts, rounds, width=4)
    return orders(expand(graph, one_layer_each(graph, stages, rounds), EIGHT))


def test_one_forward_one_back() -> None:
    """Compare with Narayanan et al. 2021, figure 4: stage s of p begins with p - 1 - s rounds forward."""
    assert schedule(Stages(4, "1f1b"), 4, 8) == [
        "F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7",
        "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 B6 B7",
        "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7",
        "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7",
    ]


def test_with_few_rounds_all_go_forward_first() -> None:
    assert schedule(Stages(4, "1f1b"), 4, 2) == ["F0 F1 B0 B1"] * 3 + ["F0 B0 F1 B1"]


def test_all_forward_then_all_back() -> None:
    """Check that the last stage does not wait: a round is forward and back in one go there."""
    assert schedule(Stages(4, "gpipe"), 4, 4) == ["F0 F1 F2 F3 B0 B1 B2 B3"] * 3 + ["F0 B0 F1 B1 F2 B2 F3 B3"]


def test_interleaved() -> None:
    """Compare with Megatron's: stage s begins with 2 (p - 1 - s) + (v - 1) p turns, p rounds of a part in a row."""
    assert schedule(Stages(2, "interleaved"), 4, 4) == [
        "F0a F1a F0b F1b F2a B0b F3a B1b F2b B0a F3b B1a B2b B3b B2a B3a",
        "F0a F1a F0b B0b F1b B1b F2a B0a F3a B1a F2b B2b F3b B3b B2a B3a",
    ]


def test_gradients_of_weights_are_late_without_bubbles() -> None:
    """Compare with Qi et al. 2023 (ZB-H1): those of stage s wait for s further rounds, and fill what 1F1B waits for."""
    graph = chain(4, 8, width=4)
    program = expand(graph, one_layer_each(graph, Stages(4, "zb-h1"), 8), EIGHT)
    assert orders(program, "fbd") == [
        "F0 F1 F2 F3 D0 B0 F4 D1 B1 F5 D2 B2 F6 D3 B3 F7 D4 B4 D5 B5 D6 B6 D7 B7",
        "F0 F1 F2 B0 F3 B1 D0 F4 B2 D1 F5 B3 D2 F6 B4 D3 F7 B5 D4 B6 D5 B7 D6 D7",
        "F0 F1 B0 F2 B1 F3 B2 D0 F4 B3 D1 F5 B4 D2 F6 B5 D3 F7 B6 D4 B7 D5 D6 D7",
        "F0 B0 F1 B1 F2 B2 F3 B3 D0 F4 B4 D1 F5 B5 D2 F6 B6 D3 F7 B7 D4 D5 D6 D7",
    ]
    assert verify(graph, program) == []


def test_a_schedule_by_hand_is_followed() -> None:
    assert schedule(Stages(2, "f0 f1 f2 b0 b1 b2 | f0 b0 f1 b1 f2 b2"), 2, 3) == [
        "F0 F1 F2 B0 B1 B2",
        "F0 B0 F1 B1 F2 B2",
    ]
    for known, text in (
        (Stages(3, "1f1b"), "f0 f1 f2 b0 f3 b1 b2 b3 | f0 f1 b0 f2 b1 f3 b2 b3 | f0 f1 f2 f3"),
        (Stages(2, "zb-h1"), "f0 f1 b0 f2 b1 f3 b2 b3 | f0 f1 w0 f2 w1 f3 w2 w3"),
    ):
        graph = chain(known.count, 4, width=4)
        first, second = (
            expand(graph, one_layer_each(graph, each, 4), EIGHT)
            for each in (known, replace(known, schedule=text))
        )
        assert orders(first, "fbd") == orders(second, "fbd")
        assert verify(graph, second) == []


def test_several_parts_of_a_schedule_by_hand() -> None:
    text = "f0@0 f1@0 f0@2 f1@2 b0@2 b1@2 b0@0 b1@0 | f0@1 f1@1 f0@3 f1@3 b0@1 b1@1"
    graph = chain(4, 2, width=4)
    program = expand(graph, one_layer_each(graph, Stages(2, text), 2), EIGHT)
    assert orders(program)[0] == "F0a F1a F0b F1b B0b B1b B0a B1a"
    assert verify(graph, program) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("f0 f1 b0 b1 | f0", "the schedule given by hand lacks f1 of part 1 on stage 1"),
        ("f0 f0 f1 b0 b1 | f0 f1", "the schedule given by hand has f0 of part 0 twice on stage 0"),
        ("f0 f1 b0 b1 b7 | f0 f1", "the schedule given by hand has b7 of part 0 on stage 0, of 2 rounds"),
        (
            "f0 b0 f1 b1 | f1 f0",
            "the schedule given by hand cannot go on: stage 0 waits in round 0 of part 0 for stage 1; "
            "stage 1 waits in round 1 of part 1 for stage 0",
        ),
    ],
)
def test_schedules_by_hand_that_cannot_be_followed(text: str, message: str) -> None:
    graph = chain(2, 2, width=4)
    with pytest.raises(ScheduleError) as raised:
        expand(graph, one_layer_each(graph, Stages(2, text), 2), EIGHT)
    assert str(raised.value) == message


def test_an_interleaved_plan_of_one_part_each_is_one_forward_one_back() -> None:
    for rounds in (2, 6):
        assert schedule(Stages(3, "interleaved"), 3, rounds) == schedule(Stages(3, "1f1b"), 3, rounds)


def forward(layers: int, rounds: int) -> Graph:
    b = GraphBuilder("forward")
    held = b.source("x", (rounds, 4), "float32")
    for k in range(layers):
        w = b.source(f"w{k}", (4, 4), "float32", "parameter")
        labels = (("b", "i"), ("i", "j"))
        (held,) = b.apply("contract", [held, w], site=f"f{k}", labels=labels, output=("b", "j"))
    b.sink(held, site="out")
    return b.build()


def test_stages_that_wait_for_each_other_are_named() -> None:
    """Go to and fro between two stages: the first one has to begin a round before the other one ends one."""
    graph, cut = forward(5, 2), {0: 1, 1: 0, 2: 1, 3: 0, 4: 1}
    with pytest.raises(ScheduleError) as raised:
        expand(graph, in_parts(graph, cut, Stages(2, "1f1b"), 2), EIGHT)
    assert str(raised.value) == (
        "the schedule '1f1b' cannot go on: stage 0 waits in round 1 of part 0 for stage 1; "
        "stage 1 waits in round 0 of part 1 for stage 0"
    )
    assert verify(graph, expand(graph, in_parts(graph, cut, Stages(2, "gpipe"), 2), EIGHT)) == []


def test_a_cycle_is_named_without_those_that_wait_for_it() -> None:
    """Check stages 1 and 2, which wait for each other, and stage 0, which waits for stage 1."""
    needs = [(), (0,), (1,), (2,), (3,), (2,)]
    parts = [2, 1, 2, 1, 2, 0]
    pieces = [
        StagePiece(part, k, (), frozenset(need))
        for k, (part, need) in enumerate(zip(parts, needs, strict=True))
    ]
    assert len(pipeline_order(pieces, 2, Stages(3, "gpipe"))) == 12
    with pytest.raises(ScheduleError) as raised:
        pipeline_order(pieces, 2, Stages(3, "1f1b"))
    assert "stage 0" not in str(raised.value)
    assert str(raised.value).count("waits") == 2


def test_a_stage_that_waits_for_itself_says_so() -> None:
    pieces = [StagePiece(2, 0, (), frozenset()), StagePiece(0, 1, (), frozenset((0,)))]
    with pytest.raises(ScheduleError) as raised:
        pipeline_order(pieces, 2, Stages(2, "interleaved"))
    assert str(raised.value) == (
        "the schedule 'interleaved' cannot go on: "
        "stage 0 waits in round 0 of part 0 for a turn of its own that comes later"
    )


def test_what_only_its_part_needs_is_no_turn_of_its_own() -> None:
    """Check gradients of weights: they come with that of the input, whichever is first in the program."""
    graph = chain(3, 4, width=4)
    program = expand(graph, one_layer_each(graph, Stages(3, "1f1b"), 4), EIGHT)
    mine = [s.step.site for s in program.slots if s.step.stage == 1]
    assert mine == ["f1", "f1", *["d1", "b1", "c1", "f1"] * 2, *["d1", "b1", "c1"] * 2, "s1"]


def recomputed(rounds: int, order: tuple[str, ...]) -> tuple[Graph, Placements]:
    """Build two layers with gradients, the first computed again, as `again`, before the last of `order` in turn."""
    b = GraphBuilder("recomputed")
    x, target = b.source("x", (2 * rounds, 4), "float32"), b.source("target", (2 * rounds, 4), "float32")
    dims = (("b", 2 * rounds), ("i", 4))
    reads = {"f0": (x, x), "again": (x, x), "f1": ("f0", target), "b0": ("f1", "again"), "out": ("b0",)}
    for site in order:
        labels = (("b", "i"),) * len(reads[site])
        expr = ("mul", ("input", 0), ("input", 1))
        if site == "out":
            b.sink("b0", site=site)
        else:
            b.apply("cell", reads[site], site=site, expr=expr, labels=labels, dims=dims, dtype="float32")
    graph = b.build()
    return graph, in_parts(graph, {0: 0, 1: 1}, Stages(2), rounds)


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (("f0", "f1", "again", "b0", "out"), ["f0", "again", "b0"]),
        (("f0", "again", "f1", "b0", "out"), ["f0", "again", "b0"]),
    ],
)
def test_what_is_computed_again_is_done_as_late_as_in_the_program(
    order: tuple[str, ...], expected: list[str]
) -> None:
    """Check that a stage computes again in the turn of what needs it, if the program does, and else with the first."""
    graph, placements = recomputed(4, order)
    program = expand(graph, placements, EIGHT)
    mine = [(s.step.site, s.step.round) for s in program.slots if s.step.stage == 0 and s.step.site != "out"]
    is_late = order.index("again") > order.index("f1")
    before = mine.index(("f0", 1)), mine.index(("again", 0)), mine.index(("b0", 0))
    assert [site for site, number in mine if number == 0] == expected
    assert before == tuple(sorted(before)) if is_late else before[1] < before[0]
    assert verify(graph, program) == []


def test_a_slice_of_a_source_is_sent_when_its_stage_has_begun_the_round() -> None:
    """Check a source on the first stage that the last one reads: it does not wait until both have time."""
    graph, placements = recomputed(4, ("f0", "f1", "again", "b0", "out"))
    program = expand(graph, placements, EIGHT)
    steps = [s.step for s in program.slots]
    for slot in program.slots:
        for copy in slot.issued:
            if copy.source.startswith(("target", "f0")):
                number = int(copy.source.partition("round ")[2][0])
                first = next(k for k, s in enumerate(steps) if (s.site, s.round) == ("f0", number))
                assert copy.issue == first + 1 <= copy.wait
                assert (steps[copy.wait].site, steps[copy.wait].round) == ("f1", number)
    assert sum(copy.source.startswith("target") for slot in program.slots for copy in slot.issued) == 4


# The proof.


@pytest.mark.parametrize("seed", [*range(8), *rotating(5, range(8, 60))])
def test_random_plans_are_proven(seed: int) -> None:
    case = drawn(seed, state=seed % 2 == 1)
    assert verify(case.graph, case.program) == []
    stages = {slot.step.stage for slot in case.program.slots}
    assert len(stages) > 1


@pytest.fixture(scope="module")
def graph() -> Graph:
    return chain(4, 4, width=4)


@pytest.fixture(scope="module")
def program(graph: Graph) -> ExplicitGraph:
    made = expand(graph, one_layer_each(graph, Stages(4), 2, "gpu:2"), EIGHT)
    assert verify(graph, made) == []
    return made


SENT = "f0 (round 0)>[-, -] (stage 1)"


def with_steps(program: ExplicitGraph, change: Callable[[Slot], Slot]) -> ExplicitGraph:
    return replace(program, slots=tuple(map(change, program.slots)))


def with_step(program: ExplicitGraph, site: str, number: int, **changes: Any) -> ExplicitGraph:
    def change(slot: Slot) -> Slot:
        is_it = (slot.step.site, slot.step.round) == (site, number)
        return replace(slot, step=replace(slot.step, **changes)) if is_it else slot

    return with_steps(program, change)


def with_read(program: ExplicitGraph, site: str, buffer: str) -> ExplicitGraph:
    step = next(s.step for s in program.slots if s.step.site == site)
    return with_step(program, site, 0, reads=(replace(step.reads[0], buffer=buffer), *step.reads[1:]))


def with_plan(program: ExplicitGraph, change: Callable[[CopyPlan], CopyPlan]) -> ExplicitGraph:
    def changed(copy: CopyStep) -> CopyStep:
        return replace(copy, plan=change(copy.plan)) if copy.result == SENT else copy

    return with_steps(program, lambda slot: replace(slot, issued=tuple(map(changed, slot.issued))))


def with_buffer(program: ExplicitGraph, key: str, **changes: Any) -> ExplicitGraph:
    return replace(program, buffers={**program.buffers, key: replace(program.buffers[key], **changes)})


@pytest.mark.parametrize(
    ("damage", "kind", "message"),
    [
        (
            lambda p: with_read(p, "f1", "f0 (round 0)"),
            "structure",
            "input 0 of 'f1' reads 'f0 (round 0)' on stage 0",
        ),
        (
            lambda p: with_plan(p, lambda plan: replace(plan, route=None)),
            "structure",
            f"copy {SENT!r} goes by None from stage 0 to 1",
        ),
        (
            lambda p: with_plan(p, lambda plan: replace(plan, route=Route("gpu", 1))),
            "structure",
            f"copy {SENT!r} goes by Route(axis='gpu', distance=1) from stage 0 to 1",
        ),
        (
            lambda p: with_plan(p, lambda plan: replace(plan, fetch=False)),
            "structure",
            f"copy {SENT!r} goes by Route(axis='gpu', distance=2) from stage 0 to 1",
        ),
        (
            lambda p: with_buffer(p, SENT, stage=2),
            "structure",
            f"copy {SENT!r} goes by Route(axis='gpu', distance=2) from stage 0 to 2",
        ),
        (lambda p: with_step(p, "f1", 1, stage=0), "structure", "block 'f1' runs on stages [0, 1]"),
        (lambda p: with_buffer(p, "w2", stage=4), "structure", "buffer 'w2' is on stage 4"),
        (lambda p: with_buffer(p, "w2", stage=-1), "structure", "buffer 'w2' is on stage -1"),
        (lambda p: with_buffer(p, "w2", stage=1), "structure", "input 1 of 'f2' reads 'w2' on stage 1"),
        (
            lambda p: with_buffer(p, "x (round 1)", stage=1),
            "structure",
            "source 'x' is on several stages",
        ),
        (
            lambda p: with_buffer(p, "f1 (round 0)", stage=3),
            "structure",
            "output 'f1' of 'f1' has no buffer of its own",
        ),
        (
            lambda p: replace(p, stages=None),
            "structure",
            "buffer 'w1' is on stage 1",
        ),
    ],
)
def test_damage_is_found(
    graph: Graph,
    program: ExplicitGraph,
    damage: Callable[[ExplicitGraph], ExplicitGraph],
    kind: str,
    message: str,
) -> None:
    found = verify(graph, damage(program))
    assert (kind, message) in [(issue.kind, issue.message) for issue in found]


def test_a_read_before_the_copy_has_come_is_found(graph: Graph, program: ExplicitGraph) -> None:
    def late(copy: CopyStep) -> CopyStep:
        return replace(copy, wait=copy.wait + 1) if copy.result == SENT else copy

    (k,) = (k for k, slot in enumerate(program.slots) if SENT in slot.waited)
    slots = [replace(slot, issued=tuple(map(late, slot.issued))) for slot in program.slots]
    slots[k] = replace(slots[k], waited=tuple(key for key in slots[k].waited if key != SENT))
    slots[k + 1] = replace(slots[k + 1], waited=(*slots[k + 1].waited, SENT))
    found = verify(graph, replace(program, slots=tuple(slots)))
    assert [issue.message for issue in found] == [f"input 0 of 'f1' reads {SENT!r} before it is made"]
