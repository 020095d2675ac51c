"""Attention as one streaming block, forward and backward: the squares of scores are never stored whole."""

from __future__ import annotations

from tapestry.rewrites.cell_form import MULTIPLY
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.fusion.fitting import estimated
from tapestry.rewrites.patterns import functions_of
from tapestry.rewrites.regions import above, fuse
from tapestry.rewrites.rule import ExampleSizes, Match, Rule, op, tensor
from tapestry.teg.graph import Block, Graph
from tapestry.teg.signature import PARALLEL

SOURCE = "Dao et al., FlashAttention: Fast and Memory-Efficient Exact Attention, 2022"

# Between the products: scale, mask, bias and dropout cells, the softmax or what exports spell it as, casts; columns of
# sinks beside the scores, and zeros beside the gradients of the others.
BETWEEN = ("cell", "view", "softmax", "reduce", "concat", "pad")
EXPONENTIALS = frozenset(("exp", "exp2"))


def _is_soft(block: Block) -> bool:
    """Return whether a block is a softmax, or the exponentials of one that is expanded."""
    if block.operator == "cell":
        return bool(EXPONENTIALS & functions_of(block.definition))
    return block.operator == "softmax"


SQUARE = above(*BETWEEN, ends=("contract",), most=12, through=_is_soft)
PRODUCTS = ("contract",)
# What the gradient of scores gives: gradients of queries and keys, and those of biases and sinks, which are sums.
RESULTS = (*PRODUCTS, "reduce")

# Scores of content, of position, of what is compressed: their sum is what the softmax sees.
MOST_SCORES = 3
# Whatever is weighted or differentiated; one left side for both rules is looked for once.
WEIGHTED = op("contract", SQUARE, tensor("x")).commutative()


def _softens(m: Match) -> bool:
    """Return whether there is a softmax, or a reduction that sums the exponentials."""
    operators = {b.operator for b in m.blocks}
    return "softmax" in operators or "reduce" in operators


def _products(m: Match) -> int:
    return sum(b.operator == "contract" for b in m.blocks)


def _are_scores(m: Match) -> bool:
    """Return whether exponentials read every product above the weighted sum, whatever else does.

    Rows that are fully masked are recognized by their greatest score, which bypasses the softmax.
    """
    producers = {t: b for b in m.blocks for t in b.outputs}
    waiting, seen = [t for b in m.blocks if _is_soft(b) for t in b.inputs], set[str]()
    while waiting:
        block = producers.get(waiting.pop())
        if block is not None and block.site not in seen:
            seen.add(block.site)
            waiting += block.inputs
    return all(b.site in seen for b in m.blocks if b.operator in PRODUCTS and b.site != m.roots[0].site)


def _is_forward(m: Match) -> bool:
    """Return whether these are products of scores, which may be added up, with independent rows."""
    if not 2 <= _products(m) <= MOST_SCORES + 1 or not _softens(m) or not _are_scores(m):
        return False
    found = estimated(m, recomputes=True)
    return found is not None and found.streams and all(d.kind == PARALLEL for d in found.dims)


def _is_backward(m: Match) -> bool:
    """Return whether these are scores and the gradient of probabilities, for that of queries, keys, values."""
    if _products(m) < 3 or not _softens(m) or m.roots[0].site != _first_reader(m):
        return False
    found = estimated(m, recomputes=True, joined=RESULTS)
    return found is not None and found.outputs > 1 and found.streams


def _first_reader(m: Match) -> str:
    """Find the first product in the program that reads the gradient of scores: one match per attention."""
    readers = m.edited.readers[m.bindings[SQUARE]]
    return next(r.site for r, _ in readers if r.operator == "contract")


# The scores of a causal row, halved.
_MASKED = (
    "where",
    ("le", ("index", "t"), ("index", "s")),
    ("mul", ("input", 0), ("const", 0.5)),
    ("const", -1e9),
)


def _attention_example(size: ExampleSizes) -> Graph:
    """Build an example: two query heads share one head of keys and values; a causal mask."""
    b = ExampleBuilder("fuse_attention")
    s, t, d = size(3, least=2), size(4), size(5)
    q, k, v = b.tensor("q", s, 2, 2, d), b.tensor("k", t, 2, d), b.tensor("v", t, 2, d)
    scores = b.contract("sghd,tgd->ghst", q, k)
    weights = b.op("softmax", b.cell(_MASKED, {scores: "ghst"}), axes=(3,))
    return b.result(b.contract("ghst,tgd->sghd", weights, v))


def _gradient_example(size: ExampleSizes) -> Graph:
    """Build an example: gradients of queries, keys and values; the forward pass reads the probabilities too."""
    b = ExampleBuilder("fuse_attention_gradient")
    s, t, d = size(3), size(4), size(2)
    q, k, v = b.tensor("q", 2, s, d), b.tensor("k", 2, t, d), b.tensor("v", 2, t, d)
    weights = b.op("softmax", b.cell(_MASKED, {b.contract("hsd,htd->hst", q, k): "hst"}), axes=(2,))
    made = b.contract("hst,htd->hsd", weights, v)
    gradient = b.cell(("mul", ("input", 0), ("const", 0.25)), {made: "hsd"}, site="gradient")
    values = b.contract("hst,hsd->htd", weights, gradient)
    inner = b.cell(MULTIPLY, {weights: "hst", b.contract("hsd,htd->hst", gradient, v): "hst"})
    total = b.op("reduce", inner, monoid="sum", labels=("h", "s", "t"), output=("h", "s"))
    change = ("mul", ("sub", ("input", 0), ("mul", ("input", 1), ("input", 2))), ("const", 0.5))
    scores = b.cell(change, {inner: "hst", weights: "hst", total: "hs"})
    queries, keys = b.contract("hst,htd->hsd", scores, k), b.contract("hst,hsd->htd", scores, q)
    return b.result(made, queries, keys, values)


ATTENTION_FUSION: tuple[Rule, ...] = (
    Rule(
        name="fuse_attention",
        left=WEIGHTED,
        right=fuse(recomputes=True),
        when=_is_forward,
        doc="""
        Scores, softmax and weighted sum become one block that streams over rows.

        contract(cells(softmax(cells(contract(q, k)))), v)  ->  fused(q, k, v)
        However the softmax is spelled, where a part of the rows keeps little between the steps: live memory grows
        with the length and not with its square. Scores may be sums of products, of contents and positions say. The
        same steps on the same numbers. Where others (a backward pass) read scores or probabilities, their makers stay
        and the block computes them again.
        """,
        source=SOURCE,
        example=_attention_example,
    ),
    Rule(
        name="fuse_attention_gradient",
        left=WEIGHTED,
        right=fuse(recomputes=True, joined=RESULTS),
        when=_is_backward,
        doc="""
        The gradients of queries, keys and values come out of one block that computes the scores again.

        contract(ds, k), contract(ds, q), contract(p, do)  ->  fused(q, k, v, do), with p = softmax(contract(q, k))
        and ds = p (dp - sum(p dp)), dp = contract(do, v), however they are spelled.
        Where a part of the rows keeps little between the steps; the products that read `p` or `ds`, and sums of `ds`
        (gradients of biases and sinks), join as far as they need nothing made later. Gradients of keys and values are
        summed over parts of the rows, so they hold up to rounding.
        """,
        source=f"{SOURCE}, algorithm 4",
        example=_gradient_example,
        domain="real",
    ),
)
