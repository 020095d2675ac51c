"""Fits of the tables `collectives` in the mesh files, from published measurements of collectives.

    python -m benchmarks.collective_fit FILE.json ... [--write] [--json OUT]

Rows of one mesh, kind and group make a table: a smooth curve through their times, drawn towards each of them. Errors
are those of the product's predictions in five folds, in each of which a fifth of every table's sizes is left out of
the fit. `--write` puts the tables and their errors into `hardware/meshes/*.toml`. The figures of axes that fit best
without tables are printed beside those of the catalog; they go by hand into the files, with their sources.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from benchmarks.axis_fit import MeasuredCollective, fit_axis
from benchmarks.collective_files import MESHES, MeasuredGroup, write_mesh
from benchmarks.measurements import Measurement, Systems, predict
from benchmarks.measurements.command_line import read_command_line
from benchmarks.measurements.scores import SIGMAS_90, log_scores
from benchmarks.measurements.systems import group_of, reduces_in_switch, without_in_switch
from benchmarks.measurements.workload import UnpredictedError
from benchmarks.setting import write
from tapestry.hardware import Mesh, MeshAxis
from tapestry.hardware.collective_tables import CollectiveTable, distinct
from tapestry.hardware.timing import copy_ticks, seconds, step_ticks
from tapestry.hardware.timing.collectives import group_rounds, received_share

FOLDS = 5
POWERS = (0.0, 0.5, 1.0)  # of the size, in a smooth curve beside the time computed without the table
FEWEST = 3  # sizes of a table that a smooth curve is fitted to
TOTALS = (
    "all collectives",
    "all-reduce of 64 MB and more",
    "all-reduce of two nodes",
    "all-reduce of several nodes",
)
NOTE = (
    "errors are in folds; the tables themselves are drawn by {:.0%} of the distance from a smooth curve towards each "
    "row, so that errors of the shipped tables (python -m benchmarks.fidelity) are in sample"
)
BEYOND = 4.0  # a smooth curve counts from the smallest size by this ratio to the largest times it
DRAWN = 0.9  # share of its distance from the smooth curve by which a table is drawn towards a measurement
SAME_SIZE = 1.03  # ratio of sizes whose times are one point, the median
EXACT = 0.004  # logarithm of time that leaving out a point of a table may change
LEAST_ERROR, LONE_ERROR = (
    0.02,
    0.15,
)  # of a table; of one without folds, as of a table that is left out as a whole


class Sample(NamedTuple):
    """A measurement of a collective as its table counts it."""

    row: Measurement
    place: MeasuredGroup
    size_bytes: float
    time_s: float


def sample_of(row: Measurement, systems: Systems) -> Sample | None:
    """Return the sample of a row; None if no mesh fits it or it is no collective."""
    if row.question.kind != "collective":
        return None
    try:
        group = group_of(row.question)
        mesh = systems.joined(row.question, group)
    except UnpredictedError:
        return None
    kind, size = str(row.question.inputs["op"]), float(row.question.inputs["bytes"])
    ranks = group.nodes * group.ranks_per_node
    is_network, node = group.nodes > 1, mesh.name.removeprefix(f"{group.nodes}x-")
    members = group.nodes if is_network else ranks
    inside = group.ranks_per_node if is_network and kind != "send_recv" else 1
    place = MeasuredGroup(
        node,
        is_network,
        kind,
        2 if kind == "send_recv" else members,
        inside,
        _algorithm(row, kind, group.nodes, ranks, systems.meshes[node]),
    )
    return Sample(row, place, size, _time_s(row, kind, ranks, size))


def _algorithm(row: Measurement, kind: str, nodes: int, ranks: int, node: Mesh) -> str:
    """Return how an all-reduce within a node was carried out, where the links may reduce."""
    stated, axis = reduces_in_switch(row.question), node.axes[-1]
    if kind != "all_reduce" or nodes > 1 or axis.all_reduce_efficiency is None:
        return "any"
    if stated is False:
        return "ring"
    return "in_switch" if stated or ranks == axis.size else "any"


def _time_s(row: Measurement, kind: str, ranks: int, size: float) -> float:
    share = {"bus_bandwidth": received_share(kind, ranks), "algorithm_bandwidth": 1.0}
    return share[row.question.quantity] * size / row.value if row.question.quantity in share else row.value


def table_of(place: MeasuredGroup, samples: Sequence[Sample], mesh: Mesh) -> CollectiveTable:
    """Fit the table of one place; `mesh` has the tables of the meshes that this one is like."""
    size, time_s = points_of(samples)
    known = _like(place, mesh)
    if len(size) >= FEWEST:
        smooth = _smooth(size, time_s, computed_s(place, mesh))
        steps = 4.0 ** np.arange(
            np.ceil(np.log(size[0] / BEYOND) / np.log(4)), np.log(size[-1] * BEYOND) / np.log(4)
        )
        sizes = np.unique(np.concatenate([size, steps]))
        first = np.log(smooth(sizes))
        drawn = DRAWN * (np.log(time_s) - np.log(smooth(size)))
    elif known is not None:
        sizes = np.unique(np.concatenate([known.bytes, size]))
        first = _interpolated(sizes, known)
        drawn = np.log(time_s) - _interpolated(size, known)
    else:
        sizes, first, drawn = size, np.log(time_s), np.zeros(len(size))
    logarithms = np.maximum.accumulate(first + np.interp(np.log(sizes), np.log(size), drawn))
    kept = np.isin(sizes, size)
    kept[_needed(np.log(sizes), logarithms)] = True
    groups = sorted({sample.row.group for sample in samples})
    return CollectiveTable(
        place.kind,
        place.members,
        tuple(float(round(n)) for n in sizes[kept]),
        tuple(float(f"{t:.4g}") for t in np.exp(logarithms[kept])),
        LONE_ERROR,
        f"fitted by benchmarks/collective_fit.py on {len(samples)} rows of {', '.join(groups)}",
        place.inside,
        place.algorithm,
    )


def points_of(samples: Sequence[Sample]) -> tuple[np.ndarray, np.ndarray]:
    """Return sizes, ascending, and times: the medians of samples of almost the same size."""
    ordered = sorted((sample.size_bytes, sample.time_s) for sample in samples)
    starts = [0, *(k for k, (a, b) in enumerate(pairwise(ordered), 1) if b[0] > a[0] * SAME_SIZE)]
    parts = [np.log(ordered[a:b]) for a, b in pairwise([*starts, len(ordered)])]
    size, time_s = np.exp([np.median(part, axis=0) for part in parts]).T
    return size, time_s


def computed_s(place: MeasuredGroup, mesh: Mesh) -> Callable[[np.ndarray], np.ndarray]:
    """Return the seconds by bytes that the figures of the links give for a place, without any tables."""
    kind = "fetch" if place.kind == "send_recv" else place.kind
    known = without_in_switch(mesh) if place.algorithm == "ring" else mesh
    joined = known.by_count(place.members) if place.is_network else known
    joined = replace(joined, axes=tuple(replace(axis, collectives=()) for axis in joined.axes))
    if place.inside > 1:
        group = CollectiveTable(kind, place.members, (), (), LONE_ERROR, "", place.inside)
        part = replace(joined, axes=(joined.axes[0], joined.axes[-1]))
        return lambda size: _group_s(part, group, size)
    axis = joined.axes[0 if place.is_network else -1]
    share = received_share(place.kind, place.members)
    return lambda size: seconds(step_ticks(axis, kind, place.members, share * size))


def _group_s(mesh: Mesh, group: CollectiveTable, sizes: np.ndarray) -> np.ndarray:
    """Compute the seconds of collectives of so many bytes over both axes of a mesh, as plans carry them out."""
    slow, fast = mesh.axes
    rounds = group_rounds(group, slow.name, fast.name, sizes)
    received = np.stack([each for _, each in rounds], axis=-1).astype(np.int64)
    return seconds(copy_ticks(mesh, [each for each, _ in rounds], received))


def _smooth(
    size: np.ndarray, time_s: np.ndarray, computed: Callable[[np.ndarray], np.ndarray]
) -> Callable[[np.ndarray], np.ndarray]:
    """Fit a sum of powers of the size and of the computed time, with least squares of relative errors.

    Weights are at least zero, so it ascends.
    """
    scale = size[-1]

    def terms(of: np.ndarray) -> np.ndarray:
        powers = [(of / scale) ** power for power in POWERS]
        return np.stack([*powers, computed(of) / computed(size[-1:])], axis=1)

    weights, _ = nnls(terms(size) / time_s[:, None], np.ones(len(size)))
    return lambda of: terms(of) @ weights


def _like(place: MeasuredGroup, mesh: Mesh) -> CollectiveTable | None:
    """Return the table of the same place in the mesh that this one is like, if there is one."""
    axis = mesh.network if place.is_network else mesh.axes[-1]
    assert axis is not None
    wanted = place[2:]
    same = [t for t in axis.collectives if (t.kind, t.members, t.inside, t.algorithm) == wanted]
    return same[0] if same else None


def _interpolated(size: np.ndarray, table: CollectiveTable) -> np.ndarray:
    """Interpolate the logarithms of a table's times; beyond its ends the size counts in full, or not at all."""
    known = np.log(table.bytes)
    beyond = np.maximum(np.log(size) - known[-1], 0)
    return np.interp(np.log(size), known, np.log(table.seconds)) + beyond


def _needed(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the points that a line through the others misses, as positions (Douglas and Peucker 1973)."""
    kept = {0, len(x) - 1}
    parts = [(0, len(x) - 1)]
    while parts:
        a, b = parts.pop()
        if b - a < 2:
            continue
        off = np.abs(y[a : b + 1] - np.interp(x[a : b + 1], x[[a, b]], y[[a, b]]))
        worst = a + int(off.argmax())
        if off.max() > EXACT:
            kept.add(worst)
            parts += [(a, worst), (worst, b)]
    return np.array(sorted(kept))


@cache
def likenesses() -> dict[tuple[str, bool], str]:
    """Return the meshes whose tables others take over, by the file of these, and whether for its network."""
    found = {}
    for path in sorted(MESHES.glob("*.toml")):
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        for is_network, table in ((False, content["axes"][-1]), (True, content.get("network", {}))):
            if "collectives_from" in table:
                found[content["name"], is_network] = table["collectives_from"]
    return found


def fitted(samples: Iterable[Sample], systems: Systems) -> dict[MeasuredGroup, CollectiveTable]:
    """Fit the tables of all places; those that others are like come first."""
    by_place = {p: list(g) for p, g in groupby(sorted(samples, key=lambda s: s.place), key=lambda s: s.place)}
    found: dict[MeasuredGroup, CollectiveTable] = {}
    like = likenesses()
    for place in sorted(by_place, key=lambda p: (p[:2] in like, p)):
        mesh = with_tables(systems.meshes[place.mesh], found)
        found[place] = table_of(place, by_place[place], mesh)
    return found


def with_tables(mesh: Mesh, tables: Mapping[MeasuredGroup, CollectiveTable]) -> Mesh:
    """Return a mesh with these tables in place of its own, and with those of the meshes that it is like."""

    like = likenesses()

    def filled(axis: MeshAxis, is_network: bool) -> MeshAxis:
        names = (mesh.name, like.get((mesh.name, is_network)))
        found = [t for name in names for p, t in tables.items() if p[:2] == (name, is_network)]
        return replace(axis, collectives=distinct(found))

    network = None if mesh.network is None else filled(mesh.network, True)
    return replace(mesh, axes=(*mesh.axes[:-1], filled(mesh.axes[-1], False)), network=network)


def fold_errors(samples: Sequence[Sample], systems: Systems) -> dict[str, float]:
    """Predict each sample from the tables without its fold; return log of predicted over measured by row."""
    numbers: dict[str, int] = {}
    for place in {sample.place for sample in samples}:
        sizes = sorted({s.size_bytes for s in samples if s.place == place})
        for sample in samples:
            if sample.place == place:
                numbers[sample.row.id] = sizes.index(sample.size_bytes) % FOLDS
    errors: dict[str, float] = {}
    for fold in range(FOLDS):
        kept = [s for s in samples if numbers[s.row.id] != fold]
        tables = fitted(kept, systems)
        meshes = [with_tables(mesh, tables) for mesh in systems.meshes.values()]
        without = Systems(systems.devices, {mesh.name: mesh for mesh in meshes})
        held = [s.row for s in samples if numbers[s.row.id] == fold]
        for prediction in predict(held, without):
            if prediction.value is not None:
                ratio = np.log(prediction.value / prediction.row.value)
                is_rate = prediction.row.question.quantity != "time"
                errors[prediction.row.id] = float(-ratio if is_rate else ratio)
    return errors


def errors_of(
    tables: Mapping[MeasuredGroup, CollectiveTable], samples: Sequence[Sample], errors: Mapping[str, float]
) -> dict[MeasuredGroup, CollectiveTable]:
    """Return the tables with their errors in folds: the normal distribution with their interval of 90 %."""
    found = {}
    for place, table in tables.items():
        mine = [s for s in samples if s.place == place]
        logs = [abs(errors[s.row.id]) for s in mine if s.row.id in errors]
        enough = len({s.size_bytes for s in mine}) >= FEWEST and logs
        sigma = float(np.quantile(logs, 0.9, method="higher")) / SIGMAS_90 if enough else LONE_ERROR
        found[place] = replace(table, error=round(max(LEAST_ERROR, sigma), 3))
    return found


def report(
    samples: Sequence[Sample], errors: Mapping[str, float], tables: Mapping[MeasuredGroup, CollectiveTable]
) -> list[dict[str, object]]:
    """Return the errors in folds by table of measurements and by size of all-reduces, and of all rows.

    `inside_90` is the share of them inside the interval of 90 % that the table states.
    """
    scopes: dict[str, list[tuple[float, bool]]] = {}
    for row, place, size, _ in samples:
        if row.id not in errors:
            continue
        error = errors[row.id]
        is_inside = abs(error) <= SIGMAS_90 * tables[place].error
        names = ["all collectives", row.group]
        if place.kind == "all_reduce":
            names += [f"all-reduce of {m} MB and more" for m in (1, 64) if size >= m * 1e6]
            names += ["all-reduce of several nodes"] if place.is_network else []
            names += ["all-reduce of two nodes"] if place.is_network and place.members == 2 else []
        for name in names:
            scopes.setdefault(name, []).append((error, is_inside))
    return [_scores(name, *zip(*found, strict=True)) for name, found in sorted(scopes.items())]


def totals_of(lines: Sequence[dict[str, object]], samples: Sequence[Sample]) -> dict[str, object]:
    """Return the errors in folds of all rows and of the all-reduces that models wait for, by name.

    `without_prediction` counts the rows that have none when their fold is left out.
    """
    known = {str(line["table"]): {k: v for k, v in line.items() if k != "table"} for line in lines}
    found: dict[str, object] = {name: known[name] for name in TOTALS if name in known}
    predicted = known.get("all collectives", {}).get("rows", 0)
    assert isinstance(predicted, int)
    return {**found, "without_prediction": len(samples) - predicted}


def _scores(name: str, logs: Sequence[float], is_inside: Sequence[bool]) -> dict[str, object]:
    return {"table": name, **log_scores(logs), "inside_90": round(float(np.mean(is_inside)), 3)}


def figures_of(samples: Sequence[Sample], systems: Systems) -> list[dict[str, object]]:
    """Return the figures of the axis within each node that fit best, and those of the catalog."""
    found: list[dict[str, object]] = []
    inside = [s for s in samples if not s.place.is_network and s.place.algorithm != "ring"]
    for name in sorted({sample.place.mesh for sample in inside}):
        axis = systems.meshes[name].axes[-1]
        measured = [
            MeasuredCollective(s.place.kind, s.place.members, s.size_bytes, s.time_s)
            for s in inside
            if s.place.mesh == name
        ]
        best = fit_axis(axis, measured)
        known = {figure: getattr(axis, figure) for figure in best}
        found.append({"mesh": name, "rows": len(measured), "fitted": best, "catalog": known})
    return found


def main() -> None:
    arguments, rows = read_command_line(
        __doc__, "write the errors here", "write the tables into hardware/meshes/*.toml"
    )
    systems = Systems.of_catalog()
    samples = [s for row in rows if row.counts and (s := sample_of(row, systems)) is not None]
    errors = fold_errors(samples, systems)
    tables = errors_of(fitted(samples, systems), samples, errors)
    lines = report(samples, errors, tables)
    for line in lines:
        print("  ".join(f"{key} {value}" for key, value in line.items()))
    totals, note = totals_of(lines, samples), NOTE.format(DRAWN)
    print("totals in folds")
    for name, total in totals.items():
        print(f"   {name}: {total}")
    print(f"note: {note}")
    figures = figures_of(samples, systems)
    for line in figures:
        print("  ".join(f"{key} {value}" for key, value in line.items()))
    if arguments.write:
        for name in sorted({place.mesh for place in tables}):
            mine = {place: table for place, table in tables.items() if place.mesh == name}
            write_mesh(MESHES / f"{name}.toml", mine)
    if arguments.json:
        found = {"in_sample": False, "note": note, "totals": totals, "folds": lines, "figures": figures}
        write(arguments.json, found)


if __name__ == "__main__":
    main()
