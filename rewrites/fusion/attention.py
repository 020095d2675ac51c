"""Attention as one streaming block: the square of scores never exists as a whole."""

from __future__ import annotations

from rewrites.fusion.fitting import computing, form_of, streams
from rewrites.rule import Match, Rule, Sizes, either, fuse, op, rest, tensor, through
from rewrites.sketch import Sketch
from teg.graph import Graph

SOURCE = "Dao et al., FlashAttention: Fast and Memory-Efficient Exact Attention, 2022"

# Scores, scaled, masked and biased by any cells; grouped queries are names of the contraction.
SCORES = through(op("contract", rest("qk")), "cell", "view", most=3)


# A softmax as exports spell it out: exp(s - max s) / sum of it, with casts and kept dimensions in between.
HIGHEST = through(op("reduce", SCORES, monoid="max"), "cell", "view", most=2)
SHIFTED = op("cell", SCORES, HIGHEST, inside=computing("exp", "exp2"))
TOTAL = through(op("reduce", SHIFTED, monoid="sum"), "cell", "view", most=2)
SOFTMAX = either(op("softmax", SCORES), op("cell", SHIFTED, TOTAL, inside=computing("div", "mul")))
WEIGHTS = through(SOFTMAX, "cell", "view", most=3)


def _is_one_kernel(m: Match) -> bool:
    form = form_of(m, recomputes=True)
    return form is not None and streams(form)


def _attention_example(size: Sizes) -> Graph:
    """Two query heads share one head of keys and values; a causal mask."""
    b = Sketch("fuse_attention")
    s, t, d = size(3, least=2), size(4), size(5)
    q, k, v = b.tensor("q", s, 2, 2, d), b.tensor("k", t, 2, d), b.tensor("v", t, 2, d)
    scores = b.contract("sghd,tgd->ghst", q, k)
    masked = (
        "where",
        ("le", ("index", "t"), ("index", "s")),
        ("mul", ("input", 0), ("const", 0.5)),
        ("const", -1e9),
    )
    weights = b.op("softmax", b.cell(masked, {scores: "ghst"}), axes=(3,))
    return b.result(b.contract("ghst,tgd->sghd", weights, v))


ATTENTION_FUSION: tuple[Rule, ...] = (
    Rule(
        name="fuse_attention",
        left=op("contract", WEIGHTS, tensor("v")).commutative(),
        right=fuse(recomputes=True),
        when=_is_one_kernel,
        doc="""
        Scores, softmax and weighted sum become one block that streams over rows.

        contract(cells(softmax(cells(contract(q, k)))), v)  ->  fused(q, k, v)
        Where a part of the rows keeps little between the steps, so live memory grows with the length and not with
        its square. The same steps on the same numbers. Where others (a backward pass) read scores or
        probabilities, their makers stay and the block computes them again.
        """,
        source=SOURCE,
        example=_attention_example,
    ),
)
