"""Seconds predicted by a calibrated mesh file beside the seconds that PyTorch takes on this machine.

    python -m benchmarks.calibration MODEL.onnx ... [--device cuda] [--mesh here.toml] [--beside dgx-h100]
        [--ordered MODEL.onnx ...] [--json FILE]

Without `--mesh`, the machine is calibrated first. Two questions are answered with programs that calibration never ran:

- Programs: the error of whole models, beside the error by which the machine does not repeat its own times.
- Variants: rewritten forms of each `--ordered` model, reached by random walks of the catalog's rules. Spearman's rank
  correlation of predicted and measured times, beside that of two halves of the measurements, which bounds it.

Programs run in turns, one process and one thread, so that noise spreads over all. Run it alone on a quiet machine.

`--beside` names a mesh of the catalog whose device is of the kind that runs here: its predictions rest on nothing that
was measured here.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from benchmarks.setting import find_models, write
from tapestry.hardware import Mesh, load_mesh
from tapestry.hardware.calibration.calibrate import calibrate
from tapestry.hardware.calibration.choice import LAUNCH
from tapestry.hardware.calibration.host import this_gpu, this_processor
from tapestry.hardware.calibration.runs import TimedRuns
from tapestry.hardware.calibration.timed import Setting
from tapestry.hardware.calibration.validation import (
    Validation,
    median_error,
    on_one_device,
    predicted_s,
    validate,
)
from tapestry.optimizer import canonicalize
from tapestry.rewrites import RULES, Worklist, apply_all
from tapestry.teg.graph import Graph
from tapestry.teg.importers import from_onnx

MODELS = ("gpt2_small_b1_s1024", "taso_bert_8layer_s64", "light_resnet50", "taso_nasrnn_h512_t5")
ORDERED = ("taso_bert_8layer_s64", "light_resnet50")
SHORTEST_S = 1e-3  # shorter programs are not assessed: launches decide them
LONGEST_WALK = 24  # moves from a model to its variant
SLOWEST = 2.0  # times the model's own predicted time: no search would choose between slower forms


def variants(graph: Graph, mesh: Mesh, count: int, rng: np.random.Generator) -> dict[str, Graph]:
    """Return the model, and forms of it that random walks reach: each by up to `LONGEST_WALK` moves of any rule.

    Those that are predicted to take over `SLOWEST` times as long as the model are left out.
    """
    start, found = Worklist.of(graph, RULES), {graph.structural_hash: graph}
    limit_s = SLOWEST * predicted_s(on_one_device(graph), mesh)
    for _ in range(8 * count):
        if len(found) == count:
            break
        current, candidates = graph, start
        for _ in range(rng.integers(1, LONGEST_WALK + 1)):
            moves = candidates.moves() + candidates.tied()
            if not moves:
                break
            applied = apply_all(current, [moves[rng.integers(len(moves))]])
            current, candidates = applied.graph, candidates.after(applied.graph, applied.changes)
        if predicted_s(on_one_device(current), mesh) <= limit_s:
            found.setdefault(current.structural_hash, current)
    return {f"variant {k}": each for k, each in enumerate(found.values())}


def timed(graphs: dict[str, Graph], mesh: Mesh, setting: Setting, seconds: float) -> list[Validation]:
    """Run programs in turns for about so long, and return their times beside those that the mesh predicts."""
    plans = {name: on_one_device(graph) for name, graph in graphs.items()}
    with TimedRuns(setting) as runs:
        return validate(plans, mesh, runs, seconds, time.monotonic)


def errors_of(mesh: Mesh, graphs: dict[str, Graph], found: Sequence[Validation]) -> dict[str, float]:
    """Return the errors of another mesh, whose device runs modules as they are, for programs that were timed."""
    device = replace(mesh.device, launch=LAUNCH)
    return {
        each.name: predicted_s(on_one_device(graphs[each.name]), replace(mesh, device=device))
        / each.measured.seconds
        - 1
        for each in found
        if each.measured.seconds >= SHORTEST_S
    }


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Compute Spearman's rank correlation of two lists of seconds."""
    return float(spearmanr(one, other).statistic)


def assessed(found: Sequence[Validation]) -> dict[str, Any]:
    """Return the errors of programs that are long enough, and the median by which their times repeat."""
    long = [each for each in found if each.measured.seconds >= SHORTEST_S]
    return {
        "programs": [each.to_json() for each in found],
        "assessed": len(long),
        "median_error": median_error(long) if long else None,
        "median_repeat_error": float(np.median([each.measured.repeat_error for each in long]))
        if long
        else None,
    }


def ordered(graph: Graph, mesh: Mesh, setting: Setting, count: int, seconds: float) -> dict[str, Any]:
    """Return the times of a model's variants and how well predictions order them.

    All are measured twice; the rank correlation of the two says what a perfect prediction could reach.
    """
    forms = variants(graph, mesh, count, np.random.default_rng(0))
    plans = {name: on_one_device(form) for name, form in forms.items()}
    with TimedRuns(setting) as runs:
        once = validate(plans, mesh, runs, seconds / 2, time.monotonic)
        timings = runs.measure(plans, seconds / 2, time.monotonic)
    again = [replace(each, measured=timings[each.name]) for each in once]
    predicted = [each.predicted_s for each in once]
    measured = [(a.measured.seconds + b.measured.seconds) / 2 for a, b in zip(once, again, strict=True)]
    return {
        "variants": [
            {"name": each.name, "predicted_s": p, "measured_s": m}
            for each, p, m in zip(once, predicted, measured, strict=True)
        ],
        "rank_correlation": rank_correlation(predicted, measured),
        "repeat_rank_correlation": rank_correlation(
            [each.measured.seconds for each in once], [each.measured.seconds for each in again]
        ),
        "slowest_over_fastest": max(measured) / min(measured),
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Calibrate, run the programs and the variants, print both, write JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "models", nargs="*", type=Path, metavar="MODEL.onnx", help="default: those of the project"
    )
    parser.add_argument("--ordered", nargs="*", type=Path, metavar="MODEL.onnx")
    parser.add_argument("--mesh", type=Path, metavar="FILE.toml", help="calibrated before on this machine")
    parser.add_argument("--beside", metavar="MESH", help="of the catalog, with a device of this kind")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--variants", type=int, default=20)
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="of measuring, per part; calibration: 150"
    )
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args(argv)
    setting = Setting(given.device, given.threads)
    if given.mesh is None:
        host = this_gpu() if given.device == "cuda" else this_processor(given.threads)
        mesh = calibrate("this-machine", host, setting, 150.0, time.monotonic).mesh
    else:
        mesh = load_mesh(given.mesh)
    graphs = {path.stem: canonicalize(from_onnx(path)) for path in given.models or find_models(MODELS)}
    found = timed(graphs, mesh, setting, given.seconds)
    programs = assessed(found)
    for each in programs["programs"]:
        print(
            f"{each['name']:40} predicted {each['predicted_s']:9.4f} s  measured {each['measured_s']:9.4f} s"
            f"  repeats within {each['repeat_error']:6.1%}  error {each['error']:+7.1%}"
        )
    print(
        f"median error {programs['median_error']:.1%} of {programs['assessed']} programs of a millisecond and more"
    )
    if given.beside:
        errors = errors_of(load_mesh(given.beside), graphs, found)
        programs["beside"] = {
            "mesh": given.beside,
            "errors": errors,
            "median_error": median(map(abs, errors.values())),
        }
        print(f"median error of {given.beside}: {programs['beside']['median_error']:.1%}")
    orders = {}
    for path in given.ordered or find_models(ORDERED):
        order = ordered(canonicalize(from_onnx(path)), mesh, setting, given.variants, given.seconds)
        orders[path.stem] = order
        print(
            f"{path.stem}: {len(order['variants'])} variants, rank correlation {order['rank_correlation']:.3f}; "
            f"repeated measurements {order['repeat_rank_correlation']:.3f}; "
            f"the slowest takes {order['slowest_over_fastest']:.2f} times the fastest"
        )
    write(given.json, {"benchmark": "calibration", **setting._asdict(), **programs, "ordered": orders})


if __name__ == "__main__":
    sys.exit(main())
