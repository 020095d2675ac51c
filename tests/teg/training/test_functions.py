"""Derivatives of the functions of cells are the limits of difference quotients."""

from __future__ import annotations

import numpy as np
import pytest

from tapestry.teg.builder import GraphBuilder
from tapestry.teg.evaluate import evaluate
from tapestry.teg.graph import Graph
from tapestry.teg.operators.expressions import CELL_FUNCTIONS, Expression
from tapestry.teg.training.expressions import DERIVATIVES, GATES, STEPS, UNKNOWN
from tapestry.teg.training.rule import NotDifferentiable
from tests.teg.training.cases import own_gradients

COMPLEX = ("real", "imag", "conj", "complex")
# Between which numbers arguments are drawn; elsewhere between -2 and 2.
DOMAINS = {
    "acosh": (1.5, 3.0),
    **dict.fromkeys(("asin", "acos", "atanh", "erf_inv"), (-0.8, 0.8)),
    **dict.fromkeys(("sqrt", "rsqrt", "log", "log2", "log1p", "lgamma", "digamma", "pow"), (0.5, 3.0)),
    **dict.fromkeys(("mod", "fmod", "div", "reciprocal", "cbrt", "atan2"), (0.6, 2.9)),
}
SIZE, STEP = 7, 1e-6


def one_cell(expr: Expression, count: int) -> Graph:
    b = GraphBuilder("cell")
    sources = [b.source(f"x{k}", (SIZE,), "float64") for k in range(count)]
    (y,) = b.apply(
        "cell", sources, site="y", expr=expr, labels=(("n",),) * count, dims=(("n", SIZE),), dtype="float64"
    )
    b.sink(y)
    return b.build()


def check(expr: Expression, inputs: dict[str, np.ndarray], but: tuple[str, ...] = ()) -> None:
    """Compare the gradients of an expression with difference quotients."""
    graph = one_cell(expr, len(inputs))
    wanted = [name for name in inputs if name not in but]
    found = own_gradients(graph, inputs, {"y": np.ones(SIZE)}, wanted)
    for name in wanted:
        above, below = (
            evaluate(graph, inputs | {name: inputs[name] + sign * STEP})["y.out"] for sign in (1, -1)
        )
        expected = (above - below) / (2 * STEP)
        np.testing.assert_allclose(found.get(name, np.zeros(SIZE)), expected, rtol=2e-6, atol=1e-7)


def arguments(name: str) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(len(name))
    low, high = DOMAINS.get(name, (-2.0, 2.0))
    return {f"x{k}": rng.uniform(low, high, SIZE) for k in range(CELL_FUNCTIONS[name].arity)}


SMOOTH = sorted({*DERIVATIVES, *GATES} - set(COMPLEX) - {"where", "polygamma", "zeta"})


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_are_limits_of_difference_quotients(name: str) -> None:
    inputs = arguments(name)
    check((name, *(("input", k) for k in range(len(inputs)))), inputs)


@pytest.mark.parametrize(
    "expr",
    (
        ("where", ("gt", ("input", 0), ("input", 1)), ("square", ("input", 0)), ("sin", ("input", 1))),
        ("pow", ("input", 0), ("const", 2)),
        ("pow", ("input", 0), ("const", 3)),
        ("pow", ("add", ("square", ("input", 0)), ("const", 0.5)), ("const", -1.5)),
        ("mul", ("input", 0), ("add", ("input", 0), ("mul", ("input", 0), ("index", "n")))),
        ("cast", "float64", ("cast", "float64", ("exp", ("mul", ("input", 0), ("input", 0))))),
        ("add", ("floor", ("input", 0)), ("mul", ("sign", ("input", 1)), ("input", 1))),
        ("add", ("input", 0), ("cast", "float64", ("cast", "int64", ("input", 0)))),
        ("real", ("exp", ("mul", ("complex", ("input", 0), ("input", 1)), ("const", 0.5 + 0.25j)))),
        ("abs", ("complex", ("input", 0), ("tanh", ("input", 1)))),
        ("imag", ("div", ("const", 2.0), ("conj", ("complex", ("input", 0), ("input", 1))))),
        ("real", ("mul", ("square", ("complex", ("input", 0), ("input", 1))), ("input", 1))),
    ),
)
def test_expressions_are_differentiated_as_a_whole(expr: Expression) -> None:
    rng = np.random.default_rng(3)
    count = 2 if "1)" in repr(expr).replace("('input', 1)", "1)") else 1
    check(expr, {f"x{k}": rng.uniform(0.3, 0.9, SIZE) + k for k in range(count)})


@pytest.mark.parametrize("name", ("polygamma", "zeta"))
def test_functions_of_an_order_are_differentiated_by_their_other_argument(name: str) -> None:
    inputs = {"x0": np.full(SIZE, 2.0), "x1": np.linspace(0.5, 3, SIZE)}
    expr = (name, ("input", 0), ("input", 1))
    check(expr, inputs, but=("x0",))
    with pytest.raises(NotDifferentiable, match=rf"block 'y' \(cell\): the function '{name}' has no known"):
        check(expr, inputs)


def test_every_function_is_differentiated_constant_in_steps_or_refused() -> None:
    refused = set(CELL_FUNCTIONS) - set(DERIVATIVES) - set(GATES) - STEPS
    assert refused == {"bessel_i1e", "next_after"}
    assert not STEPS & (set(DERIVATIVES) | set(GATES)) and {name for name, _ in UNKNOWN} <= set(DERIVATIVES)
    with pytest.raises(NotDifferentiable, match="'bessel_i1e' has no known derivative"):
        check(("bessel_i1e", ("input", 0)), {"x0": np.ones(SIZE)})
