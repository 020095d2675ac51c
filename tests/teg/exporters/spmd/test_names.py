"""Names of users in exported modules: they name the same tensors there, and nothing of them becomes code."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tapestry.teg.builder import GraphBuilder
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.exporters.spmd import to_jax, to_torch
from tapestry.teg.graph import Graph
from tapestry.teg.interface import pack_inputs, unpack_outputs
from tapestry.teg.sharding.expand import ExplicitGraph, expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.spec import WHOLE, Split
from tapestry.teg.sharding.strategy import Strategy
from tests.teg.exporters.jax_process import JaxProcess
from tests.teg.exporters.spmd.group import ProcessGroup
from tests.teg.exporters.spmd.test_execution import assert_close, run
from tests.teg.exporters.spmd.test_lowered import CLOSE, errors, lowered

PAIR = MeshShape.of(gpu=2)
NAMES = [
    'x": planted(), "x', "x': planted(), 'x", 'say "hi"', "x'y", "\\", '\\"', '"', "{i}", "{planted()}", "}", '"""',
    "#", "class", "~1", "x>started", "a = b, c", "f(, [", "(", ": ", "i", "w", "\\N", "\\x4", "%s", "ä",
]  # fmt: skip
# Names of tensors are printable, those of graphs are any text.
TITLES = [
    *NAMES,
    "",
    "\n    planted()\n#",
    '"""\nplanted()\n"""',
    "\u2028planted()",
    "\r",
    "\x00",
    "\ud800",
    "\u202e",
]


def layered(names: list[str], title: str = "layered", layers: int = 5) -> Graph:
    """Build some products for each name, whose weights differ in a number behind it, and a state and a constant."""
    build = GraphBuilder(title)
    for k, name in enumerate(names):
        x = build.source(name, (4, 8), "float32")
        dims, labels = (("a", 4), ("b", 8)), (("a", "b"), ("b",))
        c = build.source(
            f"constant{name}", (8,), "float32", role="constant", value=np.arange(8, dtype=np.float32)
        )
        for layer in range(layers):
            w = build.source(f"{name}h.{layer}{name}", (8, 8), "float32", role="parameter")
            weights = [w] if layer else [w, build.source(f"first{name}", (8, 8), "float32", role="parameter")]
            for number, weight in enumerate(weights):
                (x,) = build.apply(
                    "contract",
                    [x, weight],
                    site=f"{name}product{k}.{layer}.{number}",
                    labels=(("a", "k"), ("k", "b")),
                    output=("a", "b"),
                )
            expression = ("tanh", ("add", ("input", 0), ("input", 1)))
            (x,) = build.apply(
                "cell",
                [x, c],
                site=f"{name}cell.{layer}",
                expr=expression,
                labels=labels,
                dims=dims,
                dtype="float32",
            )
            build.sink(x, site=f"{name}y.{layer}{name}")
        build.sink(x, site=f"next{name}", carries=name)
    return build.build()


def split(graph: Graph, mesh_shape: MeshShape = PAIR) -> ExplicitGraph:
    """Split the columns of every weight, so that the results are gathered."""
    axes = (mesh_shape.sub_axes[0].name,)
    parameters = [b.site for b in graph.sources if b.definition["role"] == "parameter"]
    columns = Placement(Strategy((WHOLE, Split(axes))))
    return expand(graph, Placements(dict.fromkeys(parameters, columns)), mesh_shape)


def called(text: str) -> set[str]:
    """Return the names of all functions that a module calls."""
    calls = (node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    return {
        f.id if isinstance(f, ast.Name) else f.attr for f in calls if isinstance(f, ast.Name | ast.Attribute)
    }


@cache
def plain_calls(write: Callable[[ExplicitGraph], str]) -> set[str]:
    """Return what the module of a program with plain names calls."""
    return called(write(split(layered(["plain"]))))


def tables(text: str) -> dict[str, dict[str, object]]:
    """Return the dictionaries that a module states."""
    names = ("SOURCES", "CONSTANTS", "OUTPUTS", "CARRIED")
    found: dict[str, dict[str, object]] = {}
    scope = {"split": lambda *dims, **_: dims}
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign | ast.AugAssign | ast.For) and any(
            isinstance(n, ast.Name) and n.id in names for n in ast.walk(node)
        ):
            exec(compile(ast.Module([node], []), "tables", "exec"), scope, found)
    return {name: found[name] for name in names}


@pytest.mark.parametrize("write", [to_torch, to_jax])
@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_a_name_and_no_code(name: str, write: Callable[[ExplicitGraph], str]) -> None:
    graph = layered([name])
    text = write(split(graph))
    assert called(text) <= plain_calls(write)
    found = tables(text)
    constants = {b.site for b in graph.sources if b.definition["role"] == "constant"}
    assert set(found["CONSTANTS"]) == constants
    assert set(found["SOURCES"]) == {b.site for b in graph.sources} - constants
    assert set(found["OUTPUTS"]) == {b.site for b in graph.sinks}
    assert found["CARRIED"] == {sink: source.site for sink, source in graph.carriers.items()}


@pytest.mark.slow
@pytest.mark.parametrize("write", [to_torch, to_jax])
@pytest.mark.parametrize("title", TITLES)
def test_the_name_of_a_graph_is_text(title: str, write: Callable[[ExplicitGraph], str]) -> None:
    text = write(split(layered(["x"], title, layers=1)))
    plain = write(split(layered(["x"], "plain", layers=1)))
    assert text.count("\n") == plain.count("\n")
    assert all(map(str.isprintable, text.split("\n")))
    assert called(text) == called(plain)


def test_names_of_axes_are_text() -> None:
    mesh_shape = MeshShape((('a": planted(), "', 2), ("b c", 2), ("b_c", 2)))
    text = to_torch(split(layered(["x"]), mesh_shape))
    assert "planted" not in called(text)


@pytest.mark.slow
def test_jax_runs_programs_with_any_names(jax_process: JaxProcess, tmp_path: Path) -> None:
    graph = layered(NAMES)
    explicit, inputs = split(graph), random_inputs(graph, np.random.default_rng(0))
    found = errors(explicit, lowered(jax_process, explicit, tmp_path), graph, inputs)
    assert len(found) == 2 * len(graph.sinks)
    assert max(found.values()) <= CLOSE


@pytest.mark.slow
def test_torch_runs_programs_with_any_names(processes: ProcessGroup, tmp_path: Path) -> None:
    graph = layered(NAMES)
    inputs = random_inputs(graph, np.random.default_rng(0))
    found = run(processes, split(graph, MeshShape.of(gpu=4)), inputs, tmp_path, most=2)
    assert_close(found, unpack_outputs(graph, evaluate(graph, pack_inputs(graph, inputs))))
