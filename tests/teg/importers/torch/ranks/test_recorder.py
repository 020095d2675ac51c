"""Modules written by hand, recorded for every rank: what cannot be read back in, or runs into trouble, is said."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

from tapestry.teg.importers import ImportFailure
from tapestry.teg.importers.torch.ranks.process import record
from tests.teg.importers.torch.ranks.recording import RecordingProcess, outputs

HEAD = """
import os
import torch
import torch.distributed as dist

RANK = int(os.environ["RANK"])
SOURCES, CONSTANTS, OUTPUTS = {"x": ("float32", (4, 6))}, {}, {"y": ((4, 6),)}


def sizes(dims):
    return dims


def boxes(dims):
    return [tuple((0, n) for n in dims)] * 3


def step(w):
    x, other = w["x"], 1 - RANK
"""


def module(folder: Path, body: str, head: str = HEAD) -> Path:
    """Write a module of two ranks."""
    path = folder / "module.py"
    path.write_text(head + "".join(f"    {line}\n" for line in dedent(body).strip().splitlines()))
    return path


SWAP = """
y = x * 1
works = dist.batch_isend_irecv([
    dist.P2POp(dist.isend, x[:, :3].contiguous(), other), dist.P2POp(dist.irecv, y.view(-1)[12:], other)
])
"""
WAIT = "for work in works: work.wait()\n"


@pytest.mark.slow
def test_messages_fill_their_places_when_they_are_waited_for(
    recording: RecordingProcess, tmp_path: Path
) -> None:
    given = [rng.standard_normal((4, 6), np.float32) for rng in map(np.random.default_rng, range(2))]

    # Given a message into a view, and writes in place through views around it
    swapped = f"{SWAP}y[0].mul_(2)\n{WAIT}y.t()[0].add_(1)\nreturn {{'y': y}}"
    found = outputs(recording.record(module(tmp_path, swapped), len(given)), given)
    for rank in range(2):
        wanted = given[rank].copy()
        wanted[0] *= 2
        wanted[2:] = given[1 - rank][:, :3].reshape(2, 6)
        wanted[:, 0] += 1
        np.testing.assert_allclose(found[rank], wanted)

    # And given one that is read before the wait, or not waited for, whose place is written or whose value is
    for lines, fault in (
        (
            f"{SWAP}z = y + 1\n{WAIT}return {{'y': z}}",
            "line 24: RuntimeError: uses what a message from rank 1 fills",
        ),
        (f"{SWAP}y[3].zero_()\n{WAIT}return {{'y': y}}", "uses what a message from rank 1 fills"),
        (
            f"{SWAP.replace('.contiguous()', '')}x.zero_()\n{WAIT}return {{'y': y}}",
            "writes what a message to rank 1 reads",
        ),
        (f"{SWAP}return {{'y': y}}", "uses what a message from rank 1 fills"),
    ):
        with pytest.raises(ImportFailure, match=fault):
            recording.record(module(tmp_path, lines), 2)


@pytest.mark.slow
def test_memory_that_nothing_wrote_spoils_what_is_computed_from_it(
    recording: RecordingProcess, tmp_path: Path
) -> None:
    lines = "y = torch.empty_like(x)\ny[1:] = x[1:]\nreturn {'y': y}"
    (found,) = outputs(recording.record(module(tmp_path, lines), 1), [np.ones((4, 6), np.float32)])
    assert np.isnan(found[0]).all() and (found[1:] == 1).all()


@pytest.mark.slow
def test_collectives_of_nccl_are_recorded(recording: RecordingProcess, tmp_path: Path) -> None:
    given = [np.arange(24, dtype=np.float32).reshape(4, 6), np.ones((4, 6), np.float32)]
    lines = """
    assert dist.get_backend() == "nccl"
    team = dist.new_group([0, 1])
    part = x.new_empty(2, 6)
    dist.reduce_scatter_tensor(part, x, dist.ReduceOp.MAX, group=team)
    y = x.new_empty(4, 6)
    work = dist.all_gather_into_tensor(y.view(-1).view(torch.uint8), part.view(-1).view(torch.uint8), async_op=True)
    work.wait()
    dist.all_reduce(y)
    dist.broadcast(y, 0)
    return {"y": y}
    """
    found = outputs(recording.record(module(tmp_path, lines), len(given), "nccl"), given)
    for mine in found:
        np.testing.assert_array_equal(mine, 2 * np.maximum(*given))


@pytest.mark.slow
def test_members_of_a_group_have_the_ranks_of_all(recording: RecordingProcess, tmp_path: Path) -> None:
    given = [np.full((4, 6), rank, np.float32) for rank in range(3)]
    lines = """
    team = dist.new_group([1, 2])
    y = x + 10
    if RANK:
        dist.broadcast(y, 2, group=team)
    if RANK == 1:
        dist.send(y[:2], 2, group=team, tag=3)
    if RANK == 2:
        dist.recv(y[2:], 1, group=team, tag=3)
        y[:2] = 0
    return {"y": y}
    """
    found = outputs(recording.record(module(tmp_path, lines), len(given)), given)
    assert [sorted({*mine.reshape(-1).tolist()}) for mine in found] == [[10], [12], [0, 12]]


@pytest.mark.slow
def test_what_cannot_be_recorded_is_named_with_its_line(recording: RecordingProcess, tmp_path: Path) -> None:
    for lines, fault in (
        (
            "dist.all_to_all([x], [x])",
            "line 20: RuntimeError: the collective 'alltoall' of a process group",
        ),
        ("if x.sum() > 0:\n    return {'y': x}", "line 20: the step reads an element"),
        ("return {'z': x}", "rank 0: KeyError: 'y'"),
        ("raise SystemExit('no')", "line 20: SystemExit: no"),
    ):
        with pytest.raises(ImportFailure, match=fault):
            recording.record(module(tmp_path, lines), 2)
    with pytest.raises(ImportFailure, match=r"a plan's program has step, .*; here boxes is missing"):
        recording.record(module(tmp_path, "return {}", HEAD.replace("def boxes", "def parts")), 2)
    with pytest.raises(ImportFailure, match="there is no file"):
        record(tmp_path / "none.py", 2, "gloo")
