"""Functions of JAX come in and give what JAX gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

from tests.importers.stablehlo.programs import same_as_jax  # noqa: E402

RNG = np.random.default_rng(5)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def mlp(params: Any, x: Any) -> Any:
    hidden = jnp.tanh(x @ params["w1"] + params["b1"])
    return hidden @ params["w2"]


def parameters() -> dict[str, np.ndarray]:
    return {"w1": normal(5, 8), "b1": normal(8), "w2": normal(8, 3)}


def test_gradient_step_carries_its_parameters() -> None:
    def step(params: Any, x: Any, y: Any) -> Any:
        loss, grads = jax.value_and_grad(lambda p: jnp.mean((mlp(p, x) - y) ** 2))(params)
        return loss, jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)

    graph = same_as_jax(step, parameters(), normal(4, 5), normal(4, 3))
    assert {s.site: s.definition.get("carries") for s in graph.sinks} == {
        "result.0": None,
        "result.1.b1": "params.b1",
        "result.1.w1": "params.w1",
        "result.1.w2": "params.w2",
    }
    roles = {s.site: s.definition["role"] for s in graph.sources}
    assert roles["params.w1"] == "parameter" and roles["x"] == "activation"


def test_adam_carries_its_moments() -> None:
    def step(params: Any, m: Any, v: Any, x: Any) -> Any:
        grads = jax.grad(lambda p: jnp.mean(mlp(p, x) ** 2))(params)
        m = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, m, grads)
        v = jax.tree.map(lambda a, g: 0.99 * a + 0.01 * g * g, v, grads)
        params = jax.tree.map(lambda p, a, b: p - 0.1 * a / (jnp.sqrt(b) + 1e-8), params, m, v)
        return params, m, v

    moments = jax.tree.map(np.abs, parameters())
    graph = same_as_jax(step, parameters(), parameters(), moments, normal(4, 5))
    roles = {s.site: s.definition["role"] for s in graph.sources}
    assert [roles[f"{tree}.w1"] for tree in ("params", "m", "v")] == [
        "parameter",
        "optimizer_state",
        "optimizer_state",
    ]
    assert all(s.definition["carries"] for s in graph.sinks)


def test_donated_argument_is_carried() -> None:
    graph = same_as_jax(lambda state, x: (state * 0.5 + x, x.sum()), normal(3), normal(3), donate_argnums=0)
    assert graph.sinks[0].definition.get("carries") == "state"


def test_scan_is_unrolled() -> None:
    def rnn(w: Any, xs: Any) -> Any:
        return lax.scan(lambda h, x: ((g := jnp.tanh(h @ w + x)), g * 2), jnp.zeros(4), xs)

    same_as_jax(rnn, normal(4, 4), normal(6, 4))
    same_as_jax(jax.grad(lambda w, xs: rnn(w, xs)[1].sum()), normal(4, 4), normal(6, 4))


def test_trips_that_depend_on_inputs_are_refused() -> None:
    def doubled(x: Any) -> Any:
        return lax.while_loop(lambda a: a < 100, lambda a: a * 2, x)

    with pytest.raises(ValueError, match="number of trips is known at import"):
        same_as_jax(doubled, np.float32(3))


def test_long_loops_are_refused() -> None:
    with pytest.raises(ValueError, match="unroll_limit"):
        same_as_jax(lambda x: lax.fori_loop(0, 1000, lambda i, a: a + i, x), np.float32(3), unroll_limit=100)


CASES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "einsum": (lambda a, b: jnp.einsum("bij,bkj->bik", a, b), (normal(2, 3, 4), normal(2, 5, 4))),
    "cumsum": (lambda a: jnp.cumsum(a, 1), (normal(3, 40),)),
    "argmax": (lambda a: (jnp.argmax(a, 1), jnp.argmin(a, 0)), (normal(4, 6),)),
    "one_hot": (lambda i: jax.nn.one_hot(i, 5), (np.array([1, 4, 0], np.int32),)),
    "take": (lambda t, i: t[i], (normal(6, 3), np.array([[1, -1], [5, 0]], np.int32))),
    "add_at": (lambda t, i, u: t.at[i].add(u), (normal(6, 3), np.array([1, 5, 1], np.int32), normal(3, 3))),
    "set_at": (lambda t, u: t.at[1:3, ::2].set(u), (normal(5, 4), normal(2, 2))),
    "dynamic_slice": (lambda t, i: lax.dynamic_slice(t, (i, 0), (2, 3)), (normal(6, 3), np.int32(3))),
    "dynamic_update": (
        lambda t, u, i: lax.dynamic_update_slice(t, u, (i, 1)),
        (normal(6, 3), normal(2, 1), np.int32(9)),
    ),
    "sort": (lambda a: jnp.sort(a, 1), (normal(3, 7),)),
    "argsort": (lambda a: jnp.argsort(a, 0), (normal(7, 3),)),
    "top_k": (lambda a: lax.top_k(a, 2), (normal(3, 7),)),
    "max_pool": (
        jax.grad(lambda a: (lax.reduce_window(a, -jnp.inf, lax.max, (2, 2), (2, 2), "VALID") ** 2).sum()),
        (normal(6, 6),),
    ),
    "remat": (jax.grad(lambda a: jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)))(a).sum()), (normal(5),)),
    "bfloat16": (lambda a: (a @ a.T).sum(1), (jnp.asarray(normal(4, 6), jnp.bfloat16),)),
}


@pytest.mark.parametrize("name", CASES)
def test_function(name: str) -> None:
    function, arguments = CASES[name]
    same_as_jax(function, *arguments, tolerance=2e-2 if name == "bfloat16" else 1e-5)
