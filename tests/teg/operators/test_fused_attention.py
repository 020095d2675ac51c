"""Tests of fused attention computed by one kernel of a library: it equals the steps in numpy, on any part."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tapestry.teg.arrays import ArrayNamespace, arrays_named
from tapestry.teg.builder import define
from tapestry.teg.evaluate import run_block
from tapestry.teg.graph import Attributes, TensorType, attributes
from tapestry.teg.operators.fused_attention import affine
from tapestry.teg.zspace import ZRange

S, T, D, E = 4, 6, 3, 5
X, Y = ("input", 0), ("input", 1)
PLAIN = (
    (("b", "h", "s", "d"), ("b", "h", "t", "d"), ("b", "h", "t", "e")),
    ("b", "h", "s", "t"),
    ("b", "h", "s", "e"),
)
# Two query heads share one head of keys; what contracts has two dimensions; no batch at all.
GROUPED = (
    (("b", "s", "h", "g", "d"), ("b", "t", "h", "d"), ("b", "t", "h", "e")),
    ("b", "h", "g", "s", "t"),
    ("b", "s", "h", "g", "e"),
)
FACTORED = ((("s", "d", "x"), ("d", "x", "t"), ("e", "t")), ("s", "t"), ("e", "s"))
SIZES = {"b": 2, "h": 3, "g": 2, "s": S, "t": T, "d": D, "e": E, "x": 2}
SCALED = ("mul", X, ("const", 0.5))
CAUSAL = ("le", ("index", "t"), ("index", "s"))
CHOSEN = ("where", CAUSAL, SCALED, ("const", -1e30))
CASTED = ("add", ("cast", "float32", ("where", CAUSAL, ("const", 0.0), ("const", -3e38))), SCALED)
MASKED = ("div", ("add", X, ("mul", Y, ("const", 2.0))), ("const", 4.0))


def cell(expr: Any, scores: tuple[str, ...], *others: tuple[str, ...], dtype: str) -> Attributes:
    dims = tuple((d, SIZES[d]) for d in scores)
    return attributes(expr=expr, labels=(scores, *others), dims=dims, dtype=dtype)


def attention(form: Any, expr: Any = SCALED, mask: tuple[str, ...] = (), dtype: str = "float32") -> Any:
    """Return the definition of attention as a fused block, and the types of its inputs and output."""
    (q, k, v), scores, output = form
    inputs = [q, k, v, *([mask] if mask else [])]
    types = tuple((tuple(SIZES[d] for d in names), dtype) for names in inputs)
    n = len(inputs)
    body = (
        ("contract", attributes(labels=(q, k), output=scores), (0, 1)),
        ("cell", cell(expr, scores, *inputs[3:], dtype=dtype), (n, *range(3, n))),
        ("softmax", attributes(axes=(len(scores) - 1,)), (n + 1,)),
        ("contract", attributes(labels=(scores, v), output=output), (n + 2, 2)),
    )
    attrs = attributes(body=body, types=types, results=(n + 3,))
    return define("fused", attrs, [TensorType(*kind) for kind in types]), types


def counted(xp: ArrayNamespace, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Return a list to which each use of the kernel adds the shape of the queries."""
    used: list[tuple[int, ...]] = []
    kernel = type(xp).attention

    def attend(self: Any, queries: Any, *rest: Any) -> Any:
        used.append(tuple(queries.shape))
        return kernel(self, queries, *rest)

    monkeypatch.setattr(type(xp), "attention", attend)
    return used


@pytest.mark.parametrize(
    "library", ["torch", pytest.param("jax", marks=(pytest.mark.slow, pytest.mark.reach))]
)
@pytest.mark.parametrize(
    ("form", "expr", "mask", "queries"),
    [
        (PLAIN, SCALED, (), (2, 3, 4, 3)),
        (PLAIN, CHOSEN, (), (2, 3, 4, 3)),
        (GROUPED, CASTED, (), (2, 3, 8, 3)),
        (PLAIN, MASKED, ("s", "t"), (2, 3, 4, 3)),
        (PLAIN, MASKED, ("b", "t"), (2, 3, 4, 3)),
        (GROUPED, SCALED, (), (2, 3, 8, 3)),
        (GROUPED, MASKED, ("s", "t"), (2, 3, 8, 3)),
        (FACTORED, MASKED, ("t",), (1, 1, 4, 6)),
    ],
)
def test_attention_is_one_kernel_and_equals_its_steps(
    form: Any,
    expr: Any,
    mask: tuple[str, ...],
    queries: tuple[int, ...],
    library: str,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip(library)
    xp = arrays_named(library)
    used = counted(xp, monkeypatch)
    (definition, outputs), types = attention(form, expr, mask)
    arrays = [rng.normal(size=shape).astype(dtype) for shape, dtype in types]
    whole = definition.signature.index_range
    # The second half of the rows, from which masks begin elsewhere.
    half = ZRange(tuple(n // 2 for n in whole.end), whole.end)
    for part in (whole, half):
        wanted = run_block(definition, part, arrays, outputs)
        with xp.computing():
            found = run_block(definition, part, [xp.from_numpy(a) for a in arrays], outputs, xp)
        np.testing.assert_allclose(xp.to_numpy(found[0]), wanted[0], rtol=2e-5, atol=2e-6)
    assert used[0] == queries and len(used) == 2


@pytest.mark.parametrize(
    ("expr", "mask", "dtype"),
    [
        (("tanh", X), (), "float32"),
        (("mul", X, Y), ("s", "t"), "float32"),
        (("mul", X, ("const", 0.0)), (), "float32"),
        (("where", CAUSAL, X, ("const", -1.0)), (), "float32"),
        (SCALED, (), "bfloat16"),
    ],
)
def test_what_is_no_attention_runs_by_its_steps(
    expr: Any, mask: tuple[str, ...], dtype: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    xp = arrays_named("torch")
    used = counted(xp, monkeypatch)
    (definition, outputs), types = attention(PLAIN, expr, mask, dtype)
    arrays = [xp.from_numpy(rng.normal(size=shape).astype(np.float32)) for shape, _ in types]
    (found,) = run_block(definition, None, [xp.cast(a, dtype) for a in arrays], outputs, xp)
    assert used == [] and xp.dtype_of(found) == dtype


def test_how_an_expression_depends_on_the_scores() -> None:
    two, low = ("const", 2.0), ("const", -1e30)
    below = ("ge", ("index", "s"), ("index", "t"))
    assert affine(("sub", ("mul", two, X), ("add", Y, two)), 0, "float32") == (2.0, ("neg", ("add", Y, two)))
    assert affine(("neg", ("div", X, two)), 0, "float32") == (-0.5, None)
    assert affine(("add", X, X), 0, "float32") == (2.0, None)
    assert affine(("where", below, X, low), 0, "float32") == (1.0, ("where", below, ("const", 0.0), low))
    for other in (("mul", X, Y), ("div", two, X), ("exp", X), ("where", below, X, two), ("cast", "int32", X)):
        assert affine(other, 0, "float32") is None
