"""Tests of the rules in an e-graph: programs round-trip, equal terms are found equal, the best program is extracted."""

import graphlib
import importlib.util
import itertools
import json
import os

import numpy as np
import pytest

if importlib.util.find_spec("egglog") is None and not os.environ.get("CI"):
    pytest.skip("egglog is not installed: run `make venv`", allow_module_level=True)

from benchmarks.egraphs.comparison import one_device
from benchmarks.egraphs.decoding import decoded
from benchmarks.egraphs.extraction import EClasses, classes_of, greedy, optimal
from benchmarks.egraphs.kinds import Kinds
from benchmarks.egraphs.laws import Laws, patterns
from benchmarks.egraphs.peer import Peer, evaluated
from benchmarks.egraphs.saturation import Saturation, SaturationLimits
from benchmarks.egraphs.shared import LAWS, normal_rules, shared_rules
from benchmarks.egraphs.table import HEADER, page, row
from benchmarks.setting import ROOT, find_models
from tapestry.rewrites import catalog
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.rule import ExampleSizes
from tapestry.teg.evaluate import evaluate
from tapestry.teg.graph import Graph
from tapestry.teg.importers import from_onnx

MESH = one_device("dgx-h100")
LIMITS = SaturationLimits()


def two_projections() -> Graph:
    """Build relu(x w + x v), a sum that one contraction can compute."""
    b = ExampleBuilder("two_projections")
    x = b.tensor("x", 64, 512)
    w, v = (b.tensor(name, 512, 512, role="parameter") for name in "wv")
    total = b.cell(("add", ("input", 0), ("input", 1)), {b.contract("mk,kn->mn", x, t): "mn" for t in (w, v)})
    return b.result(b.cell(("relu", ("input", 0)), {total: "mn"}))


def saturated(graph: Graph, *names: str, limits: SaturationLimits = LIMITS) -> tuple[Saturation, Kinds]:
    kinds = Kinds(MESH)
    known = catalog()
    saturation = Saturation([known[n] for n in names], kinds, Laws(kinds, normal_rules()))
    saturation.insert(graph)
    saturation.saturate(limits)
    return saturation, kinds


def values(graph: Graph) -> np.ndarray:
    rng = np.random.default_rng(0)
    given = {s.outputs[0]: rng.normal(size=graph.tensors[s.outputs[0]].shape) for s in graph.sources}
    (result,) = evaluate(graph, {k: v.astype(np.float32) for k, v in given.items()}).values()
    return np.asarray(result)


def test_a_program_comes_back_as_it_went_in() -> None:
    graph = two_projections()
    saturation, kinds = saturated(graph)
    back = decoded(graph, kinds, greedy(saturation.egraph, saturation.root, kinds.ticks))
    assert [b.definition.operator for b in back.blocks] == [
        *("source",) * 3,
        *("contract",) * 2,
        *("cell",) * 2,
        "sink",
    ]
    assert evaluated(back, MESH) == evaluated(graph, MESH)
    assert (values(back) == values(graph)).all()


def test_a_tensor_that_is_read_many_times_is_not_taken_for_another() -> None:
    """Check that `$a1` read the tenth time is not `$a11` read first: egglog appends a counter to our names."""
    b = ExampleBuilder("steps")
    x, rate = b.tensor("x", 4), b.tensor("rate", 4)
    state = b.cell(("exp", ("input", 0)), {rate: "m"})
    for _ in range(11):
        state = b.cell(
            ("add", ("input", 0), ("mul", ("input", 1), ("input", 2))), {x: "m", state: "m", rate: "m"}
        )
    graph = b.result(state)
    saturation, kinds = saturated(graph)
    back = decoded(graph, kinds, greedy(saturation.egraph, saturation.root, kinds.ticks))
    assert (values(back) == values(graph)).all()


def test_additive_costs_are_the_time_of_the_program() -> None:
    graph = two_projections()
    saturation, kinds = saturated(graph)
    chosen = greedy(saturation.egraph, saturation.root, kinds.ticks)
    assert chosen.total(kinds.ticks) == round(evaluated(graph, MESH)["time_s"] * 1e12)


def test_both_extractions_find_the_factored_and_fused_program() -> None:
    graph = two_projections()
    saturation, kinds = saturated(graph, "factor_contracts", "fuse_cells")
    assert saturation.report.stopped == "saturated"
    taken = greedy(saturation.egraph, saturation.root, kinds.ticks)
    solution = optimal(
        classes_of(saturation.egraph, saturation.frozen(), saturation.root),
        kinds.ticks,
        10,
        taken.total(kinds.ticks),
    )
    assert (solution.status, solution.gap) == ("optimal", 0.0)
    assert solution.chosen is not None
    for chosen in (taken, solution.chosen):
        program = decoded(graph, kinds, chosen)
        assert [b.operator for b in program.blocks if b.operator not in ("source", "sink")] == [
            "cell",
            "contract",
            "cell",
        ]
        assert np.allclose(values(program), values(graph), atol=1e-3)


def test_the_integer_program_is_as_good_as_trying_everything_and_never_cyclic() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        count = 6
        owner = [*range(count), *rng.integers(0, count, 8).tolist()]
        operands = [
            tuple(sorted(set(rng.integers(0, count, rng.integers(0, 3)).tolist())))
            if k >= count
            else tuple(c for c in rng.integers(0, count, 2).tolist() if c > k)
            for k in range(len(owner))
        ]
        classes = EClasses(list(range(len(owner))), owner, operands, 0)
        costs = rng.integers(1, 50, len(owner)).tolist()
        solution = optimal(classes, costs.__getitem__, 10, sum(costs))
        assert solution.chosen is not None
        assert solution.chosen.total(costs.__getitem__) == cheapest(classes, costs)


def cheapest(classes: EClasses, costs: list[int]) -> int:
    """Return the cost of the cheapest acyclic program, trying every choice of one e-node per class."""
    found = [needed(classes, choice) for choice in itertools.product(*classes.members())]
    return min(sum(costs[n] for n in nodes) for nodes in found if nodes is not None)


def needed(classes: EClasses, choice: tuple[int, ...]) -> set[int] | None:
    """Return the e-nodes that the root needs; None where one needs itself."""
    order = graphlib.TopologicalSorter[int]()
    waiting, seen = [classes.root], {classes.root}
    while waiting:
        of = waiting.pop()
        order.add(of, *classes.operands[choice[of]])
        new = set(classes.operands[choice[of]]) - seen
        seen |= new
        waiting += new
    try:
        return {choice[of] for of in order.static_order()}
    except graphlib.CycleError:
        return None


def test_a_pattern_says_which_operands_are_the_same() -> None:
    (found, *others) = patterns(catalog()["factor_contracts"], {"contract": {2}, "cell": {2}})
    assert len(others) == 3, "the shared operand is first or second in either contraction"
    assert [n.operator for n in found.nodes] == ["contract", "contract", "cell"]
    assert found.nodes[0].operands[0] == found.nodes[1].operands[0] == ("leaf", 0)


def test_every_shared_rule_means_in_the_e_graph_what_it_means_to_the_search() -> None:
    """Check that every rule matches its own example, and that a program of the same type is extracted."""
    for rule in shared_rules():
        graph = rule.example(ExampleSizes())
        saturation, kinds = saturated(graph, rule.name)
        assert saturation.report.applied[rule.name] > 0, rule.name
        decoded(graph, kinds, greedy(saturation.egraph, saturation.root, kinds.ticks))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("tiny_taso_bert_8layer_s64.winputs", marks=pytest.mark.slow),
        "tiny_taso_nasrnn_h512_t5.winputs",
    ],
)
def test_what_is_taken_out_has_the_values_of_the_program(name: str) -> None:
    (path,) = find_models([name])
    graph = from_onnx(path)
    saturation, kinds = saturated(graph, *LAWS, limits=SaturationLimits(passes=3, nodes=4000))
    taken = greedy(saturation.egraph, saturation.root, kinds.ticks)
    classes = classes_of(saturation.egraph, saturation.frozen(), saturation.root)
    solution = optimal(classes, kinds.ticks, 5, taken.total(kinds.ticks))
    expected = values(graph)
    for chosen in (taken, solution.chosen or taken):
        found = values(decoded(graph, kinds, chosen))
        assert np.allclose(found, expected, atol=1e-4 * np.abs(expected).max())


def test_the_peer_reports_what_it_did() -> None:
    found = Peer(two_projections(), MESH).run(SaturationLimits(), ilp_s=10)
    assert found["programs"]["ilp_time"]["status"] == "optimal"
    assert (
        found["programs"]["ilp_time"]["cost"]["time_s"] <= found["programs"]["greedy_time"]["cost"]["time_s"]
    )
    assert found["saturation"]["stopped"] == "saturated"


def test_the_page_has_the_figures_of_the_last_run() -> None:
    document = json.loads((ROOT / "benchmarks" / "results" / "rewriting.json").read_text())
    assert page(document) == (ROOT / "docs" / "generated" / "rewriting.md").read_text()


def test_a_graph_that_fails_takes_no_other_with_it() -> None:
    failed = {"graph": "large", "failed": "not done after 5 s"}
    assert row(failed).startswith("| large | not done after 5 s |")
    assert row(failed).count("|") == HEADER.splitlines()[0].count("|")
