"""What an exported PyTorch program needs besides its own statements; the functions it uses are copied into it.

This module runs nothing of a plan. An exported program states `MESH`, `SOURCES`, `CONSTANTS`, `OUTPUTS` and `CARRIED` itself, in
place of the empty ones here, and defines `step`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import zipfile
from collections.abc import Callable, Sequence
from functools import cache, reduce
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist

MESH: dict[str, int] = {}
SOURCES: dict[str, Any] = {}
CONSTANTS: dict[str, Any] = {}
OUTPUTS: dict[str, Any] = {}
CARRIED: dict[str, str] = {}
RANK = int(os.environ.get("RANK", "0"))


def step(w: dict[str, Any]) -> dict[str, Any]:
    """Compute the outputs of one step."""
    return w


def coordinates(rank: int) -> dict[str, int]:
    """Return the coordinate of a rank along each sub-axis of the mesh; the last one runs fastest."""
    found = {}
    for name, size in reversed(MESH.items()):
        rank, found[name] = divmod(rank, size)
    return found


def position(*axes: str, rank: int = RANK) -> int:
    """Return the position of a rank along sub-axes, the first one most significant."""
    at = coordinates(rank)
    return reduce(lambda found, name: found * MESH[name] + at[name], axes, 0)


class Parts(NamedTuple):
    """One dimension of a tensor: its size, and each rank's part of it."""

    size: int
    spans: tuple[tuple[int, int], ...]


@cache
def split(size: int, *axes: str, granule: int = 1) -> Parts:
    """Split a dimension over sub-axes; the last parts may be smaller or empty."""
    count = math.prod(MESH[name] for name in axes)
    granules = -(-size // granule)
    chunk = -(-granules // count) * granule
    starts = [
        min(position(*axes, rank=rank) * chunk, size)
        for rank in range(math.prod(MESH.values()))
    ]
    return Parts(size, tuple((a, min(a + chunk, size)) for a in starts))


def window(
    parts: Parts | int, stride: int, offset: int, extent: int, low: int, high: int
) -> Parts:
    """Return what windows over the parts of an index read: its neighbors' rims too."""
    spans = []
    for a, b in whole(parts).spans:
        ends = (a * stride, (b - 1) * stride)
        start = min(max(min(ends) + offset, low), high)
        stop = min(max(max(ends) + offset + extent, low), high)
        spans.append((start, max(start, stop) if a < b else start))
    return Parts(high, tuple(spans))


def whole(parts: Parts | int) -> Parts:
    """Return the parts of a dimension; of one that is not split, all of it for every rank."""
    if isinstance(parts, Parts):
        return parts
    return Parts(parts, ((0, parts),) * math.prod(MESH.values()))


Spec = tuple[Parts | int, ...]
Box = tuple[tuple[int, int], ...]


def each(names: str, rounds: range, entry: Any) -> dict[str, Any]:
    """Return equal entries for the names that a text makes of numbers."""
    return {names.format(i): entry for i in rounds}


def listed(names: str, rounds: range, values: list[Any]) -> dict[str, Any]:
    """Return the values of a list by the names that a text makes of numbers."""
    return {names.format(i): value for i, value in zip(rounds, values, strict=True)}


@cache
def boxes(spec: Spec) -> list[Box]:
    """Return the box of a tensor that each rank has."""
    ranks = range(math.prod(MESH.values()))
    return [tuple(whole(parts).spans[rank] for parts in spec) for rank in ranks]


def sizes(spec: Spec) -> tuple[int, ...]:
    """Return the shape of the whole tensor."""
    return tuple(whole(parts).size for parts in spec)


def inside(box: Box, held: Box) -> tuple[slice, ...]:
    """Return where a box lies in a tensor that is the box `held`."""
    return tuple(slice(a - h, b - h) for (a, b), (h, _) in zip(box, held, strict=True))


def volume(box: Box) -> int:
    """Count the elements of a box."""
    return math.prod(b - a for a, b in box)


@cache
def group(*axes: str) -> tuple[Any, list[int]]:
    """Return this rank's process group along sub-axes, and the ranks in it."""
    teams: dict[tuple[int, ...], list[int]] = {}
    for rank in range(math.prod(MESH.values())):
        rest = tuple(c for name, c in coordinates(rank).items() if name not in axes)
        teams.setdefault(rest, []).append(rank)
    made = [(dist.new_group(ranks), ranks) for ranks in teams.values()]
    return next(team for team in made if RANK in team[1])


COMBINE = {
    "sum": torch.add,
    "prod": torch.mul,
    "max": torch.maximum,
    "min": torch.minimum,
    "any": torch.logical_or,
    "all": torch.logical_and,
    "logsumexp": torch.logaddexp,
}
NATIVE = {"sum": "SUM", "prod": "PRODUCT", "max": "MAX", "min": "MIN"}


def native(op: str, x: torch.Tensor) -> Any:
    """Return the library's operation for a monoid, if it is to be used.

    Gloo adds up in another order on every rank, so there the terms are sent, and combined in the order of the ranks.
    """
    if dist.get_backend() == "nccl" and op in NATIVE and x.dtype != torch.bool:
        return getattr(dist.ReduceOp, NATIVE[op])
    return None


def all_gather(x: torch.Tensor, dim: int, *axes: str) -> torch.Tensor:
    """Join the parts of all members along a dimension."""
    team, ranks = group(*axes)
    parts = x.new_empty((len(ranks) * len(x), *x.shape[1:]))
    dist.all_gather_into_tensor(parts, x.contiguous(), group=team)
    return torch.cat(parts.chunk(len(ranks)), dim) if dim else parts


def all_to_all(x: torch.Tensor, cut: int, joined: int, *axes: str) -> torch.Tensor:
    """Cut one dimension into a part for each member, and join the members' parts along another."""
    team, ranks = group(*axes)
    parts = torch.stack(x.chunk(len(ranks), cut))
    received = torch.empty_like(parts)
    dist.all_to_all_single(received, parts, group=team)
    return torch.cat(received.unbind(), joined)


def send_rows(
    rows: Sequence[torch.Tensor], counts: Sequence[int], team: Any = None
) -> list[torch.Tensor]:
    """Send each member its row of elements, and return the rows that come, of the sizes given."""
    given = torch.cat([row.reshape(-1) for row in rows])
    received = given.new_empty(sum(counts))
    dist.all_to_all_single(
        received, given, list(counts), [row.numel() for row in rows], group=team
    )
    return list(received.split(list(counts)))


def reduce_scatter(
    x: torch.Tensor, dim: int, *axes: str, op: str = "sum"
) -> torch.Tensor:
    """Combine the members' terms; each member keeps its part along a dimension."""
    team, ranks = group(*axes)
    parts = torch.stack(x.chunk(len(ranks), dim))
    operation = native(op, x)
    if operation is not None:
        result = torch.empty_like(parts[0])
        dist.reduce_scatter_tensor(result, parts, operation, group=team)
        return result
    terms = torch.empty_like(parts)
    dist.all_to_all_single(terms, parts, group=team)
    return reduce(COMBINE[op], terms.unbind())


def all_reduce(x: torch.Tensor, *steps: Sequence[str], op: str = "sum") -> torch.Tensor:
    """Combine the members' terms, on all of them: each combines a slice, then the slices are gathered."""
    operation = native(op, x)
    if operation is not None:
        result = x.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(
            result, operation, group=group(*(a for axes in steps for a in axes))[0]
        )
        return result
    row, spans = x.reshape(-1), []
    for axes in steps:
        team, ranks = group(*axes)
        size = -(-len(row) // len(ranks))
        slices = [row[k * size : (k + 1) * size] for k in range(len(ranks))]
        spans.append([len(s) for s in slices])
        own = slices[ranks.index(RANK)]
        row = reduce(COMBINE[op], send_rows(slices, [len(own)] * len(ranks), team))
    for axes, lengths in zip(reversed(steps), reversed(spans), strict=True):
        team, ranks = group(*axes)
        row = torch.cat(send_rows([row] * len(ranks), lengths, team))
    return row.reshape(x.shape)


def reduce_scatter_parts(
    x: torch.Tensor, held: Spec, wanted: Spec, *steps: Sequence[str], op: str = "sum"
) -> torch.Tensor:
    """Combine the members' terms axis by axis; parts may be of any size, and some of them empty."""
    before = [[range(a, b) for a, b in box] for box in boxes(held)]
    for done, axes in enumerate(steps, start=1):
        later = [a for names in steps[done:] for a in names]
        after = [reduced_places(wanted, rank, later) for rank in range(len(before))]
        team, ranks = group(*axes)
        rows = [pick(x, before[RANK], after[rank]) for rank in ranks]
        shape = [len(places) for places in after[RANK]]
        terms = send_rows(rows, [math.prod(shape)] * len(ranks), team)
        x = reduce(COMBINE[op], terms).reshape(shape)
        before = after
    return x


def reduced_places(wanted: Spec, rank: int, later: Sequence[str]) -> list[Any]:
    """Return, per dimension, what a rank and those that it will still scatter to end up with."""
    at = coordinates(rank)
    found: list[set[int]] = [set() for _ in wanted]
    for other, box in enumerate(boxes(wanted)):
        near = all(c == at[a] for a, c in coordinates(other).items() if a not in later)
        if near and volume(box):
            for places, (a, b) in zip(found, box, strict=True):
                places.update(range(a, b))
    return [sorted(places) for places in found]


def pick(x: torch.Tensor, held: list[Any], wanted: list[Any]) -> torch.Tensor:
    """Return the elements at the product of coordinates `wanted` of a tensor that has those of `held`."""
    for dim, (mine, places) in enumerate(zip(held, wanted, strict=True)):
        where = {place: k for k, place in enumerate(mine)}
        index = torch.tensor(
            [where[place] for place in places], dtype=torch.int64, device=x.device
        )
        x = x.index_select(dim, index)
    return x


class Transfer(NamedTuple):
    """The elements `[start, stop)` of a box, as a row, that go from one rank to another."""

    target: int
    source: int
    box: Box
    start: int
    stop: int


@cache
def transfers(held: Spec, needed: Spec) -> tuple[list[Transfer], list[Transfer]]:
    """Return what goes where: each missing element once, from the nearest rank that has it.

    Nearest is the rank that differs along the fewest slow axes, then the next one round. Ranks that need the same,
    near each other, share a transfer from afar: each fetches a slice (the first list), then they pass the slices on
    (the second).
    """
    have, want = boxes(held), boxes(needed)
    axes = list(dict.fromkeys(name.partition(".")[0] for name in MESH))
    places = [
        tuple(
            position(*(n for n in MESH if n.partition(".")[0] == axis), rank=rank)
            for axis in axes
        )
        for rank in range(len(have))
    ]
    first, second = [], []
    for target, at in enumerate(places):

        def distance(
            rank: int, at: tuple[int, ...] = at, target: int = target
        ) -> tuple[Any, int]:
            return [a != b for a, b in zip(places[rank], at, strict=True)], (
                rank - target
            ) % len(have)

        nearest: dict[Box, int] = {}
        for source in sorted(range(len(have)), key=distance):
            if volume(have[source]):
                nearest.setdefault(have[source], source)
        for box, source in nearest.items():
            both = zip(box, want[target], strict=True)
            piece = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in both)
            if any(a >= b for a, b in piece):
                continue
            slowest = next(
                (k for k, a in enumerate(at) if a != places[source][k]), len(axes)
            )
            team = [
                rank
                for rank, other in enumerate(places)
                if other[: slowest + 1] == at[: slowest + 1]
                and want[rank] == want[target]
            ]
            size = -(-volume(piece) // len(team))
            for k, rank in enumerate(team):
                start, stop = (min(n * size, volume(piece)) for n in (k, k + 1))
                if start < stop and rank == target:
                    first.append(Transfer(target, source, piece, start, stop))
                elif start < stop:
                    second.append(Transfer(target, rank, piece, start, stop))
    return first, second


def exchange(x: torch.Tensor, held: Spec, needed: Spec) -> torch.Tensor:
    """Fetch the part that this rank needs, piece by piece, from the ranks that hold it."""
    have, want = boxes(held), boxes(needed)
    result = x.new_empty([b - a for a, b in want[RANK]])
    source, parts = x, have
    for moves in transfers(held, needed):
        if moves:
            move(result, source, moves, parts, want)
        source, parts = result, want
    return result


def move(
    result: torch.Tensor,
    x: torch.Tensor,
    moves: list[Transfer],
    have: list[Box],
    want: list[Box],
) -> None:
    """Carry out transfers: all pieces for one rank travel as one row."""
    count = len(have)
    out: list[list[torch.Tensor]] = [[x.new_empty(0)] for _ in range(count)]
    counts = [0] * count
    for m in moves:
        if m.source == RANK and m.target != RANK:
            row = x[inside(m.box, have[RANK])].reshape(-1)
            out[m.target].append(row[m.start : m.stop])
        if m.target == RANK and m.source != RANK:
            counts[m.source] += m.stop - m.start
    rows = send_rows([torch.cat(pieces) for pieces in out], counts)
    taken = [0] * count
    for m in moves:
        if m.target != RANK:
            continue
        place = result[inside(m.box, want[RANK])]
        if m.source == RANK:
            data = x[inside(m.box, have[RANK])].reshape(-1)[m.start : m.stop]
        else:
            data = rows[m.source][taken[m.source] : taken[m.source] + m.stop - m.start]
            taken[m.source] += m.stop - m.start
        row = place.flatten().clone()
        row[m.start : m.stop] = data
        place.copy_(row.view(place.shape))


class Stored(NamedTuple):
    """A tensor of a file: its element type, its shape, and how it is opened."""

    dtype: str
    shape: tuple[int, ...]
    open: Callable[[], np.ndarray]


def read_npz(path: str) -> dict[str, Stored]:
    """List the tensors of an npz file; bfloat16 is stored as raw words."""
    found = {}
    with zipfile.ZipFile(path) as archive:
        for entry in archive.namelist():
            with archive.open(entry) as file:
                version = np.lib.format.read_magic(file)
                read = np.lib.format.read_array_header_1_0
                if version >= (2, 0):
                    read = np.lib.format.read_array_header_2_0
                shape, _, dtype = read(file)
            name = entry.removesuffix(".npy")
            kind = "bfloat16" if dtype.str in ("|V2", "<V2") else dtype.name
            found[name] = Stored(kind, shape, lambda name=name: np.load(path)[name])
    return found


def read_safetensors(path: str) -> dict[str, Stored]:
    """List the tensors of a safetensors file; only the parts that are read leave the disk."""
    content = np.memmap(path, np.uint8, "r")
    length = int.from_bytes(content[:8].tobytes(), "little")
    header = json.loads(content[8 : 8 + length].tobytes())
    found = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        kind = (
            entry["dtype"]
            .replace("BF", "bfloat")
            .replace("F", "float")
            .replace("U", "uint")
        )
        kind = (
            kind.replace("I", "int").replace("BOOL", "bool").replace("C64", "complex64")
        )
        words = np.dtype({"bfloat16": "V2"}.get(kind, kind))
        start, stop = (8 + length + n for n in entry["data_offsets"])
        array = content[start:stop].view(words).reshape(entry["shape"])
        found[name] = Stored(kind, array.shape, lambda array=array: array)
    return found


def tensor(part: np.ndarray) -> torch.Tensor:
    """Convert an array; torch alone knows bfloat16."""
    part = np.array(part, order="C")
    if part.dtype.kind == "V":
        return torch.from_numpy(part.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(part)


def open_files(paths: Sequence[str], faults: list[str]) -> dict[str, Stored]:
    """List the tensors of all files; of one that stands in several, that of the last."""
    found: dict[str, Stored] = {}
    for path in dict.fromkeys(paths):
        reader = read_safetensors if path.endswith(".safetensors") else read_npz
        try:
            found.update(reader(path))
        except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
            faults.append(f"cannot read {path!r}: {error}")
    return found


def check_sources(stored: dict[str, Stored], faults: list[str]) -> None:
    """Compare what the files hold with what the program needs; names that it does not need are a warning."""
    for name, (dtype, spec, *logical) in SOURCES.items():
        shape = logical[0] if logical else sizes(spec)
        given = stored.get(name)
        if given is None:
            faults.append(f"{name!r} is missing: {dtype} of shape {shape}")
        elif (given.dtype, tuple(given.shape)) != (dtype, shape):
            faults.append(
                f"{name!r} is {given.dtype} of shape {given.shape}, not {dtype} of shape {shape}"
            )
    extra = [name for name in stored if name not in SOURCES]
    if extra and RANK == 0:
        print(
            f"warning: the program does not read {', '.join(map(repr, extra))}",
            file=sys.stderr,
        )


def load(stored: dict[str, Stored]) -> dict[str, torch.Tensor]:
    """Read this rank's part of every source, and make that of every constant."""
    found = {}
    for name, (_, spec, *_) in SOURCES.items():
        at = tuple(slice(a, b) for a, b in boxes(spec)[RANK])
        part = stored[name].open().reshape(sizes(spec))[at]
        found[name] = tensor(part).to(torch.get_default_device())
    for name, (dtype, spec, *_, values) in CONSTANTS.items():
        at = tuple(slice(a, b) for a, b in boxes(spec)[RANK])
        found[name] = torch.tensor(values, dtype=getattr(torch, dtype)).reshape(
            sizes(spec)
        )[at]
    return found


def collect(x: torch.Tensor, spec: Spec) -> torch.Tensor | None:
    """Put the parts of all ranks together on the first one."""
    have = boxes(spec)
    result = x.new_empty(sizes(spec)) if RANK == 0 else None
    for box, rank in {
        box: rank for rank, box in reversed(list(enumerate(have))) if volume(box)
    }.items():
        at = tuple(slice(a, b) for a, b in box)
        if RANK == rank != 0:
            dist.send(x.contiguous(), 0)
        elif result is not None:
            part = x if rank == 0 else x.new_empty([b - a for a, b in box])
            if rank:
                dist.recv(part, rank)
            result[at] = part
    return result


def save(outputs: dict[str, torch.Tensor], path: str) -> None:
    """Write the outputs whole, by their names in the program; the file appears when it is complete."""
    arrays = {}
    for name, (spec, *logical) in OUTPUTS.items():
        value = collect(outputs[name], spec)
        if value is not None:
            value = value.reshape(*logical or [value.shape]).cpu()
            raw = value.dtype == torch.bfloat16
            arrays[name] = (
                value.view(torch.int16).numpy().view("V2") if raw else value.numpy()
            )
    if RANK == 0:
        partial = f"{path}.{os.getpid()}.partial"
        with Path(partial).open("wb") as file:
            np.savez(file, **arrays)
        Path(partial).replace(path)


def run_steps(w: dict[str, torch.Tensor], count: int) -> dict[str, torch.Tensor]:
    """Run steps one after the other; what one carries, the next begins with."""
    outputs = step(w)
    for _ in range(count - 1):
        w.update({source: outputs[sink] for sink, source in CARRIED.items()})
        outputs = step(w)
    return outputs


def main() -> None:
    """Read the files, run the steps on all ranks, and write the outputs."""
    parser = argparse.ArgumentParser(
        description=str(sys.modules["__main__"].__doc__).partition("\n")[0]
    )
    parser.add_argument(
        "--inputs", required=True, help="npz or safetensors file with the inputs"
    )
    parser.add_argument(
        "--weights", help="a file with the rest of the sources; any split is fine"
    )
    parser.add_argument("--outputs", required=True, help="npz file to write")
    parser.add_argument(
        "--steps", type=int, default=1, help="steps to run, with carried state fed back"
    )
    parser.add_argument("--backend", choices=("gloo", "nccl"), default="gloo")
    arguments = parser.parse_args()
    ranks, world = math.prod(MESH.values()), int(os.environ.get("WORLD_SIZE", "1"))
    if world != ranks or arguments.steps < 1:
        sys.exit(
            f"this plan runs on {ranks} processes, not {world}, for at least one step: torchrun --nproc-per-node {ranks}"
        )
    faults: list[str] = []
    stored = open_files([p for p in (arguments.inputs, arguments.weights) if p], faults)
    check_sources(stored, faults)
    if not Path(arguments.outputs).resolve().parent.is_dir():
        faults.append(f"the folder of {arguments.outputs!r} does not exist")
    if arguments.backend == "nccl":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        torch.set_default_device("cuda")
    dist.init_process_group(arguments.backend, rank=RANK, world_size=ranks)
    everywhere: list[Any] = [None] * ranks
    dist.all_gather_object(everywhere, faults)
    found = list(dict.fromkeys(f for each in everywhere for f in each))
    if not found:
        save(run_steps(load(stored), arguments.steps), arguments.outputs)
    dist.destroy_process_group()
    if found:
        sys.exit("\n".join(found) if RANK == 0 else 1)
