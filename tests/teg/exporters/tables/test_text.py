"""Names in the modules of tables: they are keys of dictionaries there, and nothing of them becomes code."""

import ast
from collections.abc import Callable

import pytest

from tapestry.hardware.layouts.table_layouts import metal_layouts, ttnn_specs
from tapestry.teg.exporters.tables.dtensor_module import dtensor_module
from tapestry.teg.exporters.tables.jax_module import jax_module
from tapestry.teg.exporters.tables.table import ShardingTable
from tests.teg.exporters.tables.tables import table_of

NAMES = [
    'x": planted(), "x',
    "x'y",
    "back\\",
    "{i}",
    '"""',
    "#",
    "line\nplanted()",
    "\u2028",
    "\N{CAT FACE}",
    "\x00",
]


def table(names: list[str], axis: str) -> ShardingTable:
    roles = ("input", "parameter", "output", "intermediate")
    return table_of(
        {axis: 2}, *((f"{name}{role}", role, (8, 4), ((axis,), ())) for name in names for role in roles)
    )


def called(text: str) -> list[str]:
    return [ast.unparse(node.func) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]


@pytest.mark.parametrize("write", [jax_module, dtensor_module, ttnn_specs])
def test_names_are_keys_and_no_code(write: Callable[[ShardingTable], str]) -> None:
    given = table(NAMES, 'gpu": planted(), "')
    text = write(given)
    assert called(text) == called(write(table([f"t{k}" for k in range(len(NAMES))], "gpu")))
    strings = {n.value for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Constant)}
    assert {t.name for t in given.tensors} <= strings


def test_comments_of_layouts_are_lines() -> None:
    lines = [metal_layouts(table(names, "gpu")).splitlines() for names in (NAMES, ["t"] * len(NAMES))]
    assert [line[:3] for line in lines[0]] == [line[:3] for line in lines[1]]
