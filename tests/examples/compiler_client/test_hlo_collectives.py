"""Tests of the reader of compiled modules: groups of devices in each spelling, loops, and what it does not know."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tapestry.examples.compiler_client.hlo_collectives import collectives, received

MODULE = """HloModule step, entry_computation_layout={{(f32[8,4]{{1,0}})->f32[8,4]{{1,0}}}}, num_partitions=8

%add (x: f32[], y: f32[]) -> f32[] {{
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %sum = f32[] add(%x, %y)
}}

ENTRY %main (p: f32[8,4]) -> f32[8,4] {{
  %p = f32[8,4]{{1,0}} parameter(0)
  %q = bf16[8,4]{{1,0}} convert(%p)
  ROOT %made = {line}, metadata={{op_name="jit(step)/dot_general" stack_frame_id=5}}
}}
"""
LIST, GRID = "replica_groups={{0,1},{2,3},{4,5},{6,7}}", "replica_groups=[2,4]<=[4,2]T(1,0)"
AXES = "replica_groups=mesh['data'=4,'model'=2] {'model'}"
ORDERED = "replica_groups=mesh['a'=1,'b'=4,'c'=2], device_ids=([2,4]T(1,0)) {'b'}"
PART = "replica_groups=mesh['a'=8] {'a':(2)2}"
REST = "channel_id=1, use_global_device_ids=true"


@pytest.mark.parametrize(
    ("line", "kind", "group", "count"),
    [
        (f"f32[8,4]{{1,0}} all-reduce(%p), {LIST}, to_apply=%add", "all-reduce", 2, 2 * 8 * 64),
        (f"f32[8,4]{{1,0}} all-reduce(%p), {GRID}, to_apply=%add, {REST}", "all-reduce", 4, 2 * 8 * 96),
        ("f32[8,4]{1,0} all-reduce(%p), replica_groups={}, to_apply=%add", "all-reduce", 8, 2 * 8 * 112),
        (f"bf16[16,4]{{1,0}} all-gather(%q), {AXES}, dimensions={{0}}", "all-gather", 2, 8 * 64),
        (f"f32[8,16]{{1,0}} all-gather(%p), {ORDERED}, dimensions={{1}}", "all-gather", 4, 8 * 3 * 128),
        (
            f"f32[4,4]{{1,0}} reduce-scatter(%p), {PART}, dimensions={{0}}, to_apply=%add",
            "reduce-scatter",
            2,
            8 * 64,
        ),
        (
            f"(f32[8,4]{{1,0}}, f32[8,4]{{1,0}}) all-to-all(%p, /*index=1*/%p), {LIST}, dimensions={{0}}",
            "all-to-all",
            2,
            8 * 128,
        ),
        (
            "f32[8,4]{1,0} collective-permute(%p), source_target_pairs={{0,1},{1,0},{2,2}}",
            "collective-permute",
            8,
            2 * 128,
        ),
        (
            f"(f32[8,4]{{1,0}}, f32[16,4]{{1,0}}) all-gather-start(%p), {LIST}, dimensions={{0}}",
            "all-gather",
            2,
            8 * 128,
        ),
    ],
)
def test_what_devices_receive_follows_from_operands_and_groups(
    line: str, kind: str, group: int, count: int
) -> None:
    (found,) = collectives(MODULE.format(line=line))
    assert (found.kind, found.group, found.times) == (kind, group, 1)
    assert (found.received_bytes, found.op_name) == (count, "jit(step)/dot_general")


LOOP = """HloModule loop, num_partitions=4

%body (t: (s32[], f32[16])) -> (s32[], f32[16]) {{
  %t = (s32[], f32[16]{{0}}) parameter(0)
  %k = s32[] get-tuple-element(%t), index=0
  %h = f32[16]{{0}} get-tuple-element(%t), index=1
  %g = f32[64]{{0}} all-gather(%h), replica_groups=[1,4]<=[4], dimensions={{0}}
  %s = f32[16]{{0}} slice(%g), slice={{[0:16]}}
  ROOT %r = (s32[], f32[16]{{0}}) tuple(%k, %s)
}}

%cond (t.1: (s32[], f32[16])) -> pred[] {{
  %t.1 = (s32[], f32[16]{{0}}) parameter(0)
  %k.1 = s32[] get-tuple-element(%t.1), index=0
  %n = s32[] constant(5)
  ROOT %c = pred[] compare(%k.1, %n), direction=LT
}}

ENTRY %main (a: f32[16]) -> f32[16] {{
  %a = f32[16]{{0}} parameter(0)
  %z = s32[] constant(0)
  %i = (s32[], f32[16]{{0}}) tuple(%z, %a)
  %w = (s32[], f32[16]{{0}}) while(%i), condition=%cond, body=%body{trips}
  ROOT %o = f32[16]{{0}} get-tuple-element(%w), index=1
}}
"""
TRIPS = ', backend_config={"known_trip_count":{"n":"5"}}'


def test_a_collective_in_a_loop_counts_as_often_as_the_loop_runs(tmp_path: Path) -> None:
    text = LOOP.format(trips=TRIPS)
    assert received(text) == {"all-gather": 5 * 4 * 3 * 64}
    file = tmp_path / "loop.hlo"
    file.write_text(text)
    command = [sys.executable, "-m", "tapestry.examples.compiler_client.hlo_collectives", str(file)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed.split() == ["3,840", "B", "5", "x", "all-gather", "of", "f32", "among", "4"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (LOOP.format(trips=""), "does not say how often it runs"),
        (MODULE.format(line="f32[8,4] ragged-all-to-all(%p), replica_groups={}"), "is not counted here"),
        (
            MODULE.format(line="f32[8,4] all-reduce(%p), replica_groups=?, to_apply=%add"),
            "a way that is not known",
        ),
        (
            MODULE.format(line="f32[8,4] all-reduce(%p), replica_groups={{0,1},{2}}, to_apply=%add"),
            "differ in size",
        ),
    ],
)
def test_what_the_reader_does_not_know_is_an_error(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        collectives(text)
