"""Tests of right sides that make one fused block: values that others read, late inputs, fused blocks in the match."""

import tracemalloc
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from tapestry.rewrites import (
    RULES,
    ExampleSizes,
    Rule,
    apply_all,
    apply_move,
    find,
    find_tied,
    rule_named,
    saturate,
)
from tapestry.rewrites.cell_form import ADD, INPUT
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.regions import above, fuse
from tapestry.rewrites.rule import op, rest, tensor
from tapestry.teg.evaluate import evaluate, random_inputs, run_block
from tapestry.teg.graph import Graph
from tapestry.teg.importers import from_onnx
from tapestry.teg.operators import body_of
from tapestry.teg.validate import check

GRAPHS = Path(__file__).resolve().parents[1] / "data" / "graphs"
TANH = ("tanh", INPUT)
PRODUCT = op("contract", rest("xs"))


def epilogue(recomputes: bool = False) -> Rule:
    """Build a rule that fuses every cell with one operand into the product before it."""
    return Rule(
        name="epilogue",
        left=op("cell", PRODUCT),
        right=fuse(recomputes=recomputes),
        doc="A test.",
        source="none",
        example=lambda _: product(),
    )


def product(*others: str) -> Graph:
    """Build tanh(x w), and the other readers of the product."""
    b = ExampleBuilder("product")
    x, w = b.tensor("x", 3, 4), b.tensor("w", 4, 5)
    y = b.contract("mk,kn->mn", x, w, site="y")
    z = b.cell(TANH, {y: "mn"}, site="z")
    return b.result(z, *(b.cell((name, INPUT), {y: "mn"}, site=name) for name in others))


def steps(graph: Graph, site: str) -> list[str]:
    return [s.operator.name for s in body_of(graph.producers[site].definition).steps]


def applied(graph: Graph, rule: Rule, place: str = "z") -> Graph:
    after = apply_move(graph, next(m for m in find(graph, [rule]) if m.place == place), {rule.name: rule})
    check(after)
    assert_same(graph, after)
    return after


def assert_same(before: Graph, after: Graph) -> None:
    inputs: Mapping[str, np.ndarray] = random_inputs(before, np.random.default_rng(0))
    wanted, got = evaluate(before, inputs), evaluate(after, inputs)
    for site, value in wanted.items():
        np.testing.assert_allclose(got[site], value, rtol=1e-6, atol=1e-6)


def test_matched_blocks_become_one_block_that_keeps_the_result() -> None:
    graph = product()
    after = applied(graph, epilogue())
    assert [b.operator for b in after.blocks] == ["source", "source", "fused", "sink"]
    assert after.producers["z"].inputs == ("x", "w")
    assert after.tensors["z"] is graph.tensors["z"]
    assert steps(after, "z") == ["contract", "cell"]


def test_what_others_read_becomes_a_further_output() -> None:
    after = applied(product("neg"), epilogue())
    assert after.producers["z"].outputs == ("z", "y")
    assert after.producers["z"] is after.producers["y"]


def test_or_its_maker_stays_and_the_block_computes_it_again() -> None:
    graph = product("neg")
    after = applied(graph, epilogue(recomputes=True))
    assert after.producers["z"].outputs == ("z",)
    assert after.producers["y"] is graph.producers["y"]


def test_a_fused_block_in_the_match_gives_its_steps() -> None:
    b = ExampleBuilder("twice")
    z = b.cell(
        TANH, {b.contract("mk,kn->mn", b.tensor("x", 3, 4), b.tensor("w", 4, 5), site="y"): "mn"}, site="z"
    )
    graph = b.result(b.cell(("neg", INPUT), {z: "mn"}, site="last"), z)
    two = Rule("two", op("cell", op("fused", rest("xs"))), fuse(), "A test.", "none", lambda _: graph)
    after = applied(applied(graph, epilogue()), two, "last")
    assert steps(after, "last") == ["contract", "cell", "cell"]
    assert after.producers["last"].outputs == ("last", "z")


def test_a_block_is_not_fused_around_one_that_needs_it() -> None:
    """Check that y is not fused into the block of z: z reads y, and a softmax of y that stands outside."""
    b = ExampleBuilder("around")
    y = b.cell(TANH, {b.tensor("x", 4): "r"}, site="y")
    order = b.op("softmax", y, axes=(0,), site="order")
    z = b.cell(ADD, {y: "r", order: "r"}, site="z")
    graph = b.result(z)
    both = Rule(
        "both", op("cell", op("cell", rest("xs")), tensor("o")), fuse(), "A test.", "none", lambda _: graph
    )
    again = Rule("again", both.left, fuse(recomputes=True), "A test.", "none", lambda _: graph)
    assert find(graph, [both]) == []
    assert [m.place for m in find(graph, [again])] == ["z"]


def test_above_takes_what_lies_on_a_way_from_an_end_and_nothing_else() -> None:
    """Check that the product and later cells are fused, not the producers of the bias and the product's operand."""
    b = ExampleBuilder("above")
    x = b.cell(TANH, {b.tensor("x", 3, 4): "mk"}, site="in")
    bias = b.cell(("exp", INPUT), {b.tensor("v", 5): "n"}, site="bias")
    y = b.contract("mk,kn->mn", x, b.tensor("w", 4, 5), site="y")
    z = b.cell(ADD, {y: "mn", bias: "n"}, site="z")
    graph = b.result(b.op("softmax", b.cell(TANH, {z: "mn"}, site="t"), axes=(1,), site="s"))
    rule = Rule(
        "reach",
        op("softmax", above("cell", ends=("contract",), most=4)),
        fuse(),
        "A test.",
        "none",
        lambda _: graph,
    )
    after = applied(graph, rule, "s")
    assert after.producers["s"].inputs == ("in", "w", "bias")
    assert steps(after, "s") == ["contract", "cell", "cell", "softmax"]


def test_equal_layers_become_streaming_blocks_together_and_can_be_spelled_out_again() -> None:
    b = ExampleBuilder("layers")
    q, k, v = (b.tensor(name, 2, 3, 4) for name in "qkv")
    for _ in range(3):
        weights = b.op("softmax", b.contract("hsd,htd->hst", q, k), axes=(2,))
        q = b.contract("hst,htd->hsd", weights, v)
    graph = b.result(q)
    after = apply_all(graph, find_tied(graph, [rule_named("fuse_attention")])).graph
    assert_same(graph, after)
    assert [x.operator for x in after.blocks].count("fused") == 3
    back = apply_all(after, find_tied(after, [rule_named("expand_fused")])).graph
    assert back.structural_hash == graph.structural_hash


def test_an_example_of_every_fusion_gets_one_block_less_or_more_outputs() -> None:
    for name in ("fuse_attention", "fuse_attention_gradient"):
        rule = rule_named(name)
        graph = rule.example(ExampleSizes())
        after = apply_move(graph, find(graph, [rule])[0])
        assert [x.operator for x in after.blocks].count("fused") == 1


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("tiny_gpt2_small_b1_s1024", {"fuse_attention": 2, "fuse_after_contract": 10}),
        ("tiny_llama2_7b_1layer_b1_s2048", {"fuse_attention": 2, "fuse_normalisation": 5}),
        (
            "tiny_train_gpt2_small_b8_s1024_adam",
            {"fuse_attention": 2, "fuse_attention_gradient": 2, "fuse_update": 28},
        ),
    ],
)
def test_fusions_are_found_in_exported_models(name: str, found: Mapping[str, int]) -> None:
    graph = saturate(from_onnx(GRAPHS / f"{name}.onnx"), [r for r in RULES if r.saturating]).graph
    moves = Counter(m.rule for m in find(graph, [rule_named(rule) for rule in found]))
    assert moves == found


@pytest.mark.slow
def test_a_training_step_whose_fusions_are_all_made_means_the_same() -> None:
    graph = saturate(
        from_onnx(GRAPHS / "tiny_train_gpt2_small_b8_s1024_adam.onnx"), [r for r in RULES if r.saturating]
    ).graph
    after = graph
    for name in ("fuse_attention", "fuse_attention_gradient", "fuse_update", "fuse_after_contract"):
        while moves := find_tied(after, [rule_named(name)]):
            after = apply_move(after, moves[0])
    check(after)
    assert len(after.blocks) < 0.85 * len(graph.blocks)
    assert_same(graph, after)


class Long(ExampleSizes):
    """Sizes of an example with every larger size set to one length."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.length = length

    def __call__(self, default: int, least: int = 1) -> int:
        return self.length if default > 2 else 16


@pytest.mark.parametrize("name", ["fuse_attention", "fuse_attention_gradient"])
def test_no_square_of_scores_is_ever_whole_in_a_fused_block(name: str) -> None:
    """Check the block's memory: its inputs and outputs grow with the length, all else stays below a constant."""
    graph = rule_named(name).example(Long(512))
    after = apply_move(graph, find(graph, [rule_named(name)])[0])
    block = next(b for b in after.blocks if b.operator == "fused")
    rng = np.random.default_rng(0)
    operands = [rng.standard_normal(t.shape, np.float32) for t in after.input_types(block)]
    tracemalloc.start()
    run_block(block.definition, None, operands, after.output_types(block))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    square, made = 2 * 512 * 512 * 4, sum(t.size_bytes for t in after.output_types(block))
    assert peak < made + 5 * (1 << 20) // 2
    assert body_square(graph, square)


def body_square(graph: Graph, square: int) -> bool:
    """Return whether the program before the rewrite has tensors of the square."""
    return any(t.type.size_bytes >= square for t in graph.tensors.values())


def test_attention_whose_scores_are_a_sum_of_products_is_one_block() -> None:
    """Check masked scores with contents and rotated positions apart (multi-head latent attention)."""
    b = ExampleBuilder("latent attention")
    q, k, v = (b.tensor(n, 2, s, 4) for n, s in (("q", 3), ("k", 5), ("v", 5)))
    turned_q, turned_k = b.tensor("turned_q", 2, 3, 2), b.tensor("turned_k", 5, 2)
    contents, places = b.contract("hsd,htd->hst", q, k), b.contract("hsr,tr->hst", turned_q, turned_k)
    mask = ("where", ("le", ("index", "t"), ("index", "s")), ("add", INPUT, ("input", 1)), ("const", -1e9))
    weights = b.op("softmax", b.cell(mask, {contents: "hst", places: "hst"}), axes=(2,))
    graph = b.result(b.contract("hst,htd->shd", weights, v))
    (move,) = [m for m in find(graph, RULES) if m.rule == "fuse_attention"]
    after = apply_move(graph, move)
    assert_same(graph, after)
    assert [x.operator for x in after.blocks if x.operator not in ("source", "sink")] == ["fused"]
