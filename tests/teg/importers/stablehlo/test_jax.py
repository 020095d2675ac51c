"""Tests that functions of JAX are imported and give what JAX gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

from tapestry.teg.importers import from_jax  # noqa: E402
from tests.cases import one_in  # noqa: E402
from tests.teg.importers.stablehlo.programs import same_as_jax  # noqa: E402

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


def test_a_jitted_function_keeps_what_it_says_of_its_arguments() -> None:
    def step(state: Any, unused: Any, count: int, x: Any) -> Any:
        return state * 0.5 + x * count, x.sum()

    jitted = jax.jit(step, static_argnums=2, donate_argnums=0)
    graph = from_jax(jitted, normal(3), normal(7), 4, normal(3))
    assert [s.site for s in graph.sources] == ["state", "x"]
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


def relu_block(x: Any, w: Any) -> Any:
    return x + jax.nn.relu(x @ w) @ w, (x @ w).mean()


FORWARDS: dict[str, Any] = {
    "residual": (relu_block, (4, 8), (8, 8)),
    "relu": (lambda x: (jax.nn.relu(x), x.mean()), (4, 8)),
    "centered": (lambda x: (x - x.mean(1, keepdims=True), x.mean()), (4, 8)),
    "bias": (lambda x, b: (x + b, x.mean()), (4, 8), (4, 8)),
    "two streams": (lambda a, b, w: (a + a @ w, b + b @ w), (4, 8), (4, 8), (8, 8)),
}


@pytest.mark.parametrize("name", FORWARDS)
def test_a_forward_pass_carries_nothing(name: str) -> None:
    function, *shapes = FORWARDS[name]
    graph = from_jax(function, *(normal(*s) for s in shapes))
    assert {s.definition.get("carries") for s in graph.sinks} == {None}
    assert {s.definition["role"] for s in graph.sources} == {"activation"}


def test_a_parameter_that_is_stated_is_carried_without_a_loss() -> None:
    def step(w: Any, x: Any) -> Any:
        return w - 0.1 * jax.grad(lambda w: ((x @ w) ** 2).mean())(w)

    graph = from_jax(step, normal(3, 3), normal(4, 3), roles={"w": "parameter"})
    assert [s.definition.get("carries") for s in graph.sinks] == ["w"]


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
    "solve": (jax.vmap(jnp.linalg.solve), (normal(2, 4, 4), normal(2, 4, 2))),
    "determinant": (lambda a: (jnp.linalg.det(a), jnp.linalg.inv(a)), (normal(4, 4),)),
    "qr": (jnp.linalg.qr, (normal(5, 3),)),
    "eigh": (lambda a: jnp.linalg.eigvalsh(a + a.T), (normal(4, 4),)),
    "svd": (lambda a: jnp.linalg.svd(a, compute_uv=False), (normal(4, 3),)),
    "pca": (lambda a: jnp.abs(jnp.linalg.svd(a - a.mean(0), full_matrices=False)[2]), (normal(7, 3),)),
    "cholesky": (jax.grad(lambda a: jnp.linalg.cholesky(a @ a.T + jnp.eye(4)).sum()), (normal(4, 4),)),
    "fft": (lambda a: jnp.fft.irfft2(jnp.fft.rfft2(a) * (1 + 2j)), (normal(6, 8),)),
    "random": (
        lambda k: (jax.random.normal(k, (3, 4)), jax.random.permutation(k, 5)),
        (np.array([0, 3], np.uint32),),
    ),
    "avg_pool": (
        jax.grad(lambda a: (lax.reduce_window(a, 0.0, lax.add, (3, 3), (2, 2), "SAME") ** 2).sum()),
        (normal(7, 6),),
    ),
    "conv_gradients": (
        jax.grad(
            lambda w, x: (
                lax.conv_general_dilated(
                    x,
                    w,
                    (2, 1),
                    "SAME",
                    rhs_dilation=(1, 2),
                    feature_group_count=2,
                    dimension_numbers=("NHWC", "HWIO", "NHWC"),
                )
                ** 2
            ).sum(),
            argnums=(0, 1),
        ),
        (normal(3, 2, 2, 4), normal(2, 7, 6, 4)),
    ),
    "conv_transpose": (
        lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")),
        (normal(2, 5, 5, 3), normal(3, 3, 3, 4)),
    ),
    "two_index_gather": (
        jax.grad(lambda t, i, j: (t[i, :, j] ** 2).sum()),
        (normal(5, 3, 4), np.array([[1, 4], [0, 1]], np.int32), np.array([3, 0], np.int32)),
    ),
    "slices_per_row": (
        jax.vmap(lambda t, i: lax.dynamic_slice(t, (i,), (2,))),
        (normal(3, 6), np.array([5, 0, 2], np.int32)),
    ),
    "extremes_at": (
        lambda t, i, u: (t.at[i].min(u), t.at[i].max(u), t.at[i].multiply(u)),
        (normal(5, 4), np.array([1, 1, 9], np.int32), normal(3, 4)),
    ),
    "sort_by_two": (
        lambda a, b: lax.sort((a, b, b * 2), num_keys=2),
        (np.array([2, 1, 2, 1], np.int32), normal(4)),
    ),
    "custom_reduction": (
        lambda a: lax.reduce(a, np.float32(0), lambda x, y: jnp.sqrt(x * x + y * y), (1,)),
        (normal(4, 7),),
    ),
    "switch": (
        lambda k, x: lax.switch(k, [lambda a: a * 2, lambda a: a - 1, jnp.sin], x),
        (np.int32(1), normal(3)),
    ),
    "integers": (
        lambda a, b: (
            a // b,
            lax.rem(a, b),
            a << b,
            lax.shift_right_logical(a, b),
            lax.population_count(a),
            lax.clz(a),
        ),
        (np.array([-7, 9, 100], np.int32), np.array([2, 3, 5], np.int32)),
    ),
    "remat": (jax.grad(lambda a: jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)))(a).sum()), (normal(5),)),
    "bfloat16": (lambda a: (a @ a.T).sum(1), (jnp.asarray(normal(4, 6), jnp.bfloat16),)),
}


EXTREMES = np.array(
    [-1e20, -300.7, -129.5, -0.9, 0, 1.9, 127.9, 128, 255.5, 3e9, 1e20, np.inf, -np.inf, np.nan], np.float32
)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
def test_floats_beyond_an_integer_type_become_its_limits(dtype: str) -> None:
    same_as_jax(lambda x: (x.astype(dtype), (x * 9).astype(jnp.bfloat16).astype(dtype)), EXTREMES)


def test_floats_beyond_long_integers_become_their_limits() -> None:
    with jax.enable_x64(True):
        same_as_jax(lambda x: (x.astype("int64"), x.astype("uint64")), EXTREMES.astype(np.float64))


def test_whole_division_by_zero() -> None:
    a, b = np.array([-7, 9, 0, -(2**31)], np.int32), np.array([0, 0, 0, 2], np.int32)
    same_as_jax(lambda a, b: (lax.div(a, b), lax.rem(a, b), lax.div(a, np.int32(3))), a, b)
    same_as_jax(lambda a, b: (lax.div(a, b), lax.rem(a, b)), a.astype(np.uint32), b.astype(np.uint32))


def test_double_precision() -> None:
    with jax.enable_x64(True):
        same_as_jax(
            lambda x: (jnp.sin(x) @ x.T, jnp.argsort(x, 1), x.astype(jnp.int64)),
            RNG.standard_normal((4, 5)),
            tolerance=1e-12,
        )


def test_shapes_are_enough() -> None:
    weight = jax.ShapeDtypeStruct((512, 256), jnp.bfloat16)
    graph = from_jax(
        lambda w, x: x @ w, weight, jax.ShapeDtypeStruct((8, 512), jnp.bfloat16), roles={"w": "parameter"}
    )
    assert [(s.site, s.definition["role"]) for s in graph.sources] == [
        ("w", "parameter"),
        ("x", "activation"),
    ]
    assert [b.operator for b in graph.blocks] == ["source", "source", "contract", "sink"]


@pytest.mark.parametrize("name", one_in(4, CASES))
def test_function(name: str) -> None:
    function, arguments = CASES[name]
    same_as_jax(function, *arguments, tolerance=2e-2 if name == "bfloat16" else 1e-5)
