"""The source of the runtime: collectives in steps, and those that wait for each step."""

from __future__ import annotations

import ast
from functools import cache

import pytest

from tapestry.teg.exporters.spmd.runtime_source import RuntimeSource, words_of
from tapestry.teg.exporters.spmd.target import TORCH

COLLECTIVES = (
    *("all_gather", "all_to_all", "reduce_scatter", "all_reduce", "reduce_scatter_parts", "exchange"),
    "shared_exchange",
)


@cache
def source() -> RuntimeSource:
    return RuntimeSource.read(TORCH)


@pytest.mark.parametrize("name", COLLECTIVES)
def test_a_collective_in_steps_can_be_started_and_one_that_waits_has_none(name: str) -> None:
    assert {"AsyncCollective", "Steps", "swap"} <= set(source().closure([name]))
    waiting = source().synchronous()
    needed = waiting.closure([name])
    assert "swap" in needed and not {"AsyncCollective", "Started", "Steps"} & set(needed)
    tree = ast.parse("\n".join(waiting.parts[part] for part in needed))
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Yield | ast.YieldFrom)]


def test_both_kinds_do_the_same_but_for_waiting() -> None:
    waiting = source().synchronous()
    for name, text in source().parts.items():
        others = {"AsyncCollective", "Steps", "Tensor"}
        assert set(words_of([text])) - others == set(words_of([waiting.parts[name]])) - others
