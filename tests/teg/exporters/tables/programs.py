"""Programs of JAX as a user writes them, for tests of tables. This module imports nothing of the project."""

from __future__ import annotations

from typing import Any


def lowered(name: str) -> str:
    """Return a program as StableHLO text, lowered for one device."""
    import jax
    import jax.numpy as jnp

    def shaped(*shape: int, dtype: Any = jnp.float32) -> Any:
        return jax.ShapeDtypeStruct(shape, dtype)

    def perceptron(x: Any, up: Any, down: Any) -> Any:
        return x + jnp.tanh(x @ up) @ down

    def attention(x: Any, wqkv: Any, wo: Any) -> Any:
        batch, length, width = x.shape
        heads = 8
        q, k, v = jnp.split((x @ wqkv).reshape(batch, length, heads, -1), 3, axis=-1)
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / (width // heads) ** 0.5
        mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, axis=-1), v)
        return x + mixed.reshape(batch, length, width) @ wo

    def training(params: Any, x: Any, y: Any) -> Any:
        def loss(p: Any) -> Any:
            h = jax.nn.relu(x @ p["w1"] + p["b1"])
            return jnp.mean((h @ p["w2"] + p["b2"] - y) ** 2)

        value, gradients = jax.value_and_grad(loss)(params)
        return value, jax.tree.map(lambda p, g: p - 0.01 * g, params, gradients)

    def convolutions(x: Any, first: Any, second: Any, head: Any) -> Any:
        order = ("NHWC", "HWIO", "NHWC")
        h = jax.nn.relu(jax.lax.conv_general_dilated(x, first, (1, 1), "SAME", dimension_numbers=order))
        h = jax.nn.relu(jax.lax.conv_general_dilated(h, second, (2, 2), "SAME", dimension_numbers=order))
        return h.mean((1, 2)) @ head

    def layers(x: Any, weights: Any) -> Any:
        return jax.lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, weights)[0]

    def unrolled(x: Any, weights: Any) -> Any:
        for k in range(4):
            x = jnp.tanh(x @ weights[k])
        return x

    half = jnp.bfloat16
    params = {"w1": shaped(256, 1024), "b1": shaped(1024), "w2": shaped(1024, 256), "b2": shaped(256)}
    programs: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "perceptron": (perceptron, (shaped(512, 256), shaped(256, 1024), shaped(1024, 256))),
        "perceptron_bf16": (
            perceptron,
            (shaped(512, 256, dtype=half), shaped(256, 1024, dtype=half), shaped(1024, 256, dtype=half)),
        ),
        "attention": (attention, (shaped(8, 128, 256), shaped(256, 768), shaped(256, 256))),
        "training": (training, (params, shaped(512, 256), shaped(512, 256))),
        "convolutions": (
            convolutions,
            (shaped(16, 32, 32, 8), shaped(3, 3, 8, 32), shaped(3, 3, 32, 64), shaped(64, 16)),
        ),
        "layers": (layers, (shaped(64, 256), shaped(4, 256, 256))),
        "layers_unrolled": (unrolled, (shaped(64, 256), shaped(4, 256, 256))),
    }
    function, arguments = programs[name]
    return str(jax.jit(function).lower(*arguments).as_text())


def compiled_by_specs(text: str) -> str:
    """Compile the perceptron as a user writes it with a module of specs; return the compiled HLO."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import NamedSharding

    shardings: dict[str, Any] = {}
    exec(compile(text, "shardings", "exec"), shardings)
    mesh = shardings["make_mesh"]()

    def placed(name: str, value: Any) -> Any:
        combined = shardings["combine"](mesh, name, value)
        return shardings["constrain"](mesh, name, combined)

    def read(reader: str, name: str, value: Any) -> Any:
        return shardings["read"](mesh, reader, name, value)

    def perceptron(x: Any, up: Any, down: Any) -> Any:
        h = placed("dot_general.1", read("dot_general.1", "arg0", x) @ read("dot_general.1", "arg1", up))
        h = placed("tanh.1", jnp.tanh(read("tanh.1", "dot_general.1", h)))
        y = placed("dot_general.2", read("dot_general.2", "tanh.1", h) @ read("dot_general.2", "arg2", down))
        return placed("add.1", read("add.1", "arg0", x) + read("add.1", "dot_general.2", y))

    inputs = tuple(NamedSharding(mesh, shardings["INPUTS"][f"arg{k}"]) for k in range(3))
    shapes = ((512, 256), (256, 1024), (1024, 256))
    arguments = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    outputs = shardings["sharding"](mesh, "result")
    jitted = jax.jit(perceptron, in_shardings=inputs, out_shardings=outputs)
    return str(jitted.lower(*arguments).compile().as_text())
