"""Worth of learning: searches that know related ones against those that know nothing; learned against constant odds.

    python -m benchmarks.learning [--pairs A@MESH:B@MESH ...] [--seconds 10] [--graphs A ...] [--meshes M ...]
                                  [--evaluations 60000] [--seeds 2] [--json FILE]

*Pairs*: A is searched for so many CPU seconds, then B without knowing of it (cold), and B with the prior and the plans
of A, as `--start-from auto` begins it. Stored is after how many CPU seconds each has the hypervolume that the cold
search ends with. Where A and B are not related, only the prior passes from one to the other.

*Odds*: every graph is searched on every mesh from every seed with so many evaluations, once with constant odds of moves
(`SearchParts(learning=False)`), once with those that a search learns as it goes. Stored is how many evaluations each
takes to the hypervolume that the constant ones end with. A search runs in a process of its own.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import moocore
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.contenders.cells import apart
from benchmarks.contenders.ours import ENDLESS, WHOLE
from benchmarks.contenders.recorder import cpu_seconds
from benchmarks.search import DEFAULT_GRAPHS, count_in, warm_up
from benchmarks.setting import find_models, surroundings, write
from tapestry.hardware import Mesh, load_mesh
from tapestry.optimizer import Plan
from tapestry.optimizer.run.learning import NO_PRIOR, Prior, merged
from tapestry.optimizer.run.parts import SearchParts
from tapestry.optimizer.run.plan import Rate
from tapestry.optimizer.run.relatives import RelatedPlan
from tapestry.optimizer.run.search import search
from tapestry.optimizer.run.snapshot import Snapshot
from tapestry.teg.family import family_of
from tapestry.teg.graph import Graph
from tapestry.teg.importers import from_onnx

RELATED = (
    "gpt2_small_b1_s1024@dgx-h100:gpt2_small_b1_s1024@2x-dgx-h100",
    "llama2_7b_1layer_b1_s2048@8x-dgx-h100:llama2_7b_1layer_b1_s2048@2x-dgx-h100",
    "llama2_7b_1layer_b1_s2048@dgx-h100:llama2_7b_32layer_b1_s2048@dgx-h100",
    "tiny_llama2_7b_1layer_b1_s2048@dgx-h100:llama2_7b_1layer_b1_s2048@dgx-h100",
    "tiny_gpt2_small_b1_s1024@dgx-h100:gpt2_small_b1_s1024@dgx-h100",
    "taso_bert_8layer_s64@dgx-h100:taso_bert_8layer_s64@8x-dgx-h100",
    "resnet50_b16_224@dgx-h100:resnet50_b16_224@2x-dgx-h100",
    "gpt2_small_b1_s1024@dgx-h100:gpt2_small_b1_s1024@dgx-a100",
    "resnet50_b16_224@dgx-h100:gpt2_small_b1_s1024@dgx-h100",
    "gpt2_small_b1_s1024@dgx-h100:taso_nasrnn_h512_t5@2x-dgx-h100",
)
SNAPSHOT_S = 0.05


class PlacedProgram(NamedTuple):
    """A program on a mesh, as `GRAPH@MESH` names it."""

    name: str
    graph: Graph
    mesh: Mesh


class SearchRecord(NamedTuple):
    """The fronts of a search, each with the CPU seconds and evaluations before it, and what the next one may know."""

    fronts: list[tuple[float, int, np.ndarray]]
    plans: tuple[Plan, ...]
    rates: tuple[Rate, ...]


def main(argv: Sequence[str] | None = None) -> None:
    """Measure pairs and odds, print tables, store the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", nargs="*", default=RELATED, metavar="A@MESH:B@MESH")
    parser.add_argument("--seconds", type=float, default=10.0, help="CPU seconds of a search of a pair")
    parser.add_argument("--graphs", nargs="*", default=DEFAULT_GRAPHS, metavar="NAME")
    parser.add_argument("--meshes", nargs="+", default=["dgx-h100"], metavar="NAME")
    parser.add_argument("--evaluations", type=count_in, default=60_000)
    parser.add_argument("--seeds", type=count_in, default=2)
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args(argv)
    warm_up([WHOLE])
    pairs = []
    for text in given.pairs:
        pairs.append(pair(*(case(name) for name in text.split(":")), given.seconds))
        print(pairs[-1], flush=True)
    odds = []
    for name in given.graphs:
        for mesh in given.meshes:
            for seed in range(given.seeds):
                odds.append(odds_of(case(f"{name}@{mesh}"), seed, given.evaluations))
                print(odds[-1], flush=True)
    document = {"benchmark": "learning", **surroundings(), "seconds": given.seconds, "pairs": pairs}
    document |= {"evaluations": given.evaluations, "odds": odds, "summary": summary(pairs, odds)}
    Console(width=140).print(table_of(pairs))
    print(document["summary"])
    write(given.json, document)


def case(name: str) -> PlacedProgram:
    """Load the program and the mesh that a name states."""
    model, _, mesh = name.partition("@")
    path = Path(model)
    return PlacedProgram(name, from_onnx(path if path.exists() else find_models([model])[0]), load_mesh(mesh))


def pair(first: PlacedProgram, second: PlacedProgram, seconds: float) -> dict[str, Any]:
    """Search a program, then another one without and with what is known of the first."""
    known = apart(partial(searched, first, seconds=seconds, seed=0))
    cold = apart(partial(searched, second, seconds=seconds, seed=1))
    prior = Prior(1, merged((rate, 1.0) for rate in known.rates))
    is_related = family_of(first.graph) == family_of(second.graph)
    options: dict[str, Any] = {"prior": prior}
    if is_related:
        options["relatives"] = [RelatedPlan(plan.moves, plan.placements) for plan in known.plans]
    warm = apart(partial(searched, second, seconds=seconds, seed=1, **options))
    volume = common_box(cold, warm)
    target = volume(cold.fronts[-1][2])
    return {
        "first": first.name,
        "second": second.name,
        "related": is_related,
        "cold_s": reached(cold, target, volume, 0),
        "warm_s": reached(warm, target, volume, 0),
        "cold_hypervolume": round(target, 4),
        "warm_hypervolume": round(volume(warm.fronts[-1][2]), 4),
        "warm_hypervolume_half": round(volume(at(warm, seconds / 2)), 4),
        "fastest_ratio": round(float(warm.fronts[-1][2][:, 0].min() / cold.fronts[-1][2][:, 0].min()), 4),
    }


def odds_of(of: PlacedProgram, seed: int, evaluations: int) -> dict[str, Any]:
    """Search with constant and with learned odds of moves."""
    reports = [
        apart(partial(searched, of, evaluations=evaluations, seed=seed, parts=SearchParts(learning=learns)))
        for learns in (False, True)
    ]
    volume = common_box(*reports)
    target = volume(reports[0].fronts[-1][2])
    constant, learned = (reached(report, target, volume, 1) for report in reports)
    return {
        "case": of.name,
        "seed": seed,
        "constant_evaluations": constant,
        "learned_evaluations": learned,
        "constant_hypervolume": round(target, 4),
        "learned_hypervolume": round(volume(reports[1].fronts[-1][2]), 4),
    }


def searched(
    of: PlacedProgram,
    *,
    seconds: float | None = None,
    evaluations: int = ENDLESS,
    seed: int,
    prior: Prior = NO_PRIOR,
    **options: Any,
) -> SearchRecord:
    """Search here for so many CPU seconds, or evaluations."""
    began_s, fronts = cpu_seconds(), list[tuple[float, int, np.ndarray]]()

    def note(snapshot: Snapshot) -> None:
        fronts.append((cpu_seconds() - began_s, snapshot.progress.evaluations, snapshot.values))

    result = search(
        of.graph,
        of.mesh,
        evaluations=evaluations,
        islands=1,
        seed=seed,
        prior=prior,
        on_checkpoint=note,
        checkpoint_s=SNAPSHOT_S if seconds is not None else 0.0,
        should_stop=lambda: seconds is not None and cpu_seconds() - began_s > seconds,
        **options,
    )
    return SearchRecord(fronts, result.frontier, result.rates)


def common_box(*reports: SearchRecord) -> Callable[[np.ndarray], float]:
    """Return the hypervolume of fronts in the box of the last fronts, to 1.1 times their worst, on logarithmic axes."""
    ends = np.log(np.maximum(np.concatenate([report.fronts[-1][2] for report in reports]), 1e-9))
    low = ends.min(axis=0)
    high = np.maximum(ends.max(axis=0) + np.log(1.1), low + 1e-6)

    def volume(front: np.ndarray) -> float:
        scaled = (np.log(np.maximum(front, 1e-9)) - low) / (high - low)
        inside = scaled[(scaled < 1).all(axis=1)]
        return float(moocore.hypervolume(inside, ref=np.ones(front.shape[1]))) if len(inside) else 0.0

    return volume


def reached(
    report: SearchRecord, target: float, volume: Callable[[np.ndarray], float], what: int
) -> float | None:
    """Return after how many seconds (0) or evaluations (1) a search has a hypervolume; None: it never has."""
    found = next((each[what] for each in report.fronts if volume(each[2]) >= target), None)
    return None if found is None else round(found, 2)


def at(report: SearchRecord, seconds: float) -> np.ndarray:
    """Return the front that a search has after so many seconds; one without plans before its first."""
    columns = report.fronts[-1][2].shape[1]
    return next((front for s, _, front in reversed(report.fronts) if s <= seconds), np.zeros((0, columns)))


def summary(pairs: Sequence[dict[str, Any]], odds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Compute medians; a search that never has the other's hypervolume counts as infinitely long."""
    related = [_or_infinite(each["warm_s"]) for each in pairs if each["related"]]
    ratios = [each["constant_evaluations"] / _or_infinite(each["learned_evaluations"]) for each in odds]
    return {
        "related_warm_s": statistics.median(related) if related else None,
        "fewer_evaluations": round(statistics.median(ratios), 3) if ratios else None,
    }


def _or_infinite(value: float | None) -> float:
    return float("inf") if value is None else value


def table_of(pairs: Sequence[dict[str, Any]]) -> Table:
    """Build a table of the pairs."""
    names = (
        "first",
        "second",
        "related",
        "cold_s",
        "warm_s",
        "cold_hypervolume",
        "warm_hypervolume",
        "fastest_ratio",
    )
    table = Table(*names)
    for each in pairs:
        table.add_row(*(str(each[name]) for name in names))
    return table


if __name__ == "__main__":
    main()
