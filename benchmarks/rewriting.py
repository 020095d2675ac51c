"""Rewriting against equality saturation: our search and egglog's e-graph, from the same rules, under one cost.

    python -m benchmarks.rewriting --graphs PATH... [--json FILE] [--page docs/generated/rewriting.md]

Both sides start from the program that our terminating rules simplify. egglog saturates within limits; from its
e-graph the cheapest program is extracted greedily and by an acyclic integer program, once by time and once by
bytes. Our search gets the same rules and, in a second run, the whole catalog. The results are evaluated
by the reference cost model on one device: predictions of one model on both sides, no measurements of a device.

Every graph has a process of its own, so that one that dies takes no other with it; `--jobs` is how many run at once.
Graphs that FILE already holds, with the same limits, are left out: a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.egraphs.comparison import compare, one_device, warm_up
from benchmarks.egraphs.peer import SaturationLimits
from benchmarks.egraphs.shared import LAWS
from benchmarks.egraphs.table import HEADER, page, row
from benchmarks.setting import find_models, write

MODELS = ("taso_nasrnn_h512_t5", "taso_bert_8layer_s64")

# Options that the process of a graph gets.
PASSED_ON = (
    "mesh",
    "ilp_seconds",
    "evaluations",
    "seed",
    "passes",
    "several",
    "nodes",
    "saturation_seconds",
    "memory_gib",
)


def main(argv: Sequence[str] | None = None) -> None:
    """Compare on all graphs and store the figures."""
    given = _arguments().parse_args(argv)
    limits = [
        SaturationLimits(given.passes, given.several, nodes, given.saturation_seconds)
        for nodes in sorted(given.nodes)
    ]
    if given.alone:
        _alone(given, limits)
        return
    document = _document(given, limits)
    kept = {} if given.fresh else _kept(given.json, document)
    paths = {p.stem: p for p in given.graphs}
    found = {name: kept[name] for name in paths if name in kept}
    print(HEADER, *(row(r) for results in found.values() for r in results), sep="\n", flush=True)
    for name, results in _compared([p for n, p in paths.items() if n not in found], given):
        found[name] = results
        print(*map(row, results), sep="\n", flush=True)
        write(given.json, {**document, "graphs": [r for n in paths for r in found.get(n, ())]})
    if given.page is not None:
        whole = {**document, "graphs": [r for n in paths for r in found.get(n, ())]}
        given.page.write_text(page(whole), encoding="utf-8")


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--graphs", type=Path, nargs="+", metavar="PATH", default=find_models(MODELS))
    parser.add_argument("--json", type=Path, metavar="FILE", help="figures, kept after every graph")
    parser.add_argument("--page", type=Path, metavar="FILE", help="the page of figures to write")
    parser.add_argument("--jobs", type=int, default=1, help="graphs at once")
    parser.add_argument("--fresh", action="store_true", help="leave out nothing")
    parser.add_argument("--mesh", default="dgx-h100", help="whose device it is; one of it works")
    parser.add_argument("--ilp-seconds", type=float, default=120.0, help="CPU seconds per integer program")
    parser.add_argument("--evaluations", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--passes", type=int, default=SaturationLimits.passes)
    parser.add_argument(
        "--several", type=int, default=SaturationLimits.several, help="passes of rules with several roots"
    )
    parser.add_argument(
        "--nodes",
        type=int,
        nargs="+",
        default=[20_000, SaturationLimits.nodes],
        help="limits on e-nodes, one after the other",
    )
    parser.add_argument(
        "--saturation-seconds", type=float, default=SaturationLimits.seconds, help="CPU seconds"
    )
    parser.add_argument("--graph-seconds", type=float, default=1800.0, help="by the clock, per graph")
    parser.add_argument("--memory-gib", type=float, default=9.0, help="address space per graph")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    return parser


def _document(given: argparse.Namespace, limits: Sequence[SaturationLimits]) -> dict[str, Any]:
    """Return the settings that the figures are measured with."""
    return {
        "benchmark": "rewriting",
        "device": one_device(given.mesh).device.name,
        "egglog": version("egglog"),
        "limits": {
            **asdict(limits[0]),
            "nodes": [limit.nodes for limit in limits],
            "ilp_seconds": given.ilp_seconds,
            "evaluations": given.evaluations,
        },
        "rules": list(LAWS),
        "seed": given.seed,
    }


def _kept(path: Path | None, document: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Read the graphs that a file of the same settings holds; those that failed are left out, to be tried again."""
    if path is None or not path.exists():
        return {}
    known = json.loads(path.read_text())
    if any(known.get(name) != value for name, value in document.items()):
        return {}
    kept: dict[str, list[dict[str, Any]]] = {}
    for found in known["graphs"]:
        if "failed" not in found:
            kept.setdefault(found["graph"], []).append(found)
    return kept


def _compared(paths: Sequence[Path], given: argparse.Namespace) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the results as they come, each from a process of its own."""
    with ThreadPoolExecutor(max_workers=max(1, given.jobs)) as pool:
        waiting = {pool.submit(_process, path, given): path.stem for path in paths}
        for done in as_completed(waiting):
            yield waiting[done], done.result()


def _process(path: Path, given: argparse.Namespace) -> list[dict[str, Any]]:
    print(f"# {path.stem} begins", file=sys.stderr, flush=True)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="rewriting-") as folder:
        part = Path(folder) / "part.json"
        command = [sys.executable, "-m", "benchmarks.rewriting", "--alone", "--graphs", str(path)]
        command += ["--json", str(part)]
        for name in PASSED_ON:
            value = getattr(given, name)
            values = value if isinstance(value, list) else [value]
            command += [f"--{name.replace('_', '-')}", *map(str, values)]
        try:
            ended = subprocess.run(
                command, timeout=given.graph_seconds, capture_output=True, text=True, check=False
            )
        except subprocess.TimeoutExpired:
            return [{"graph": path.stem, "failed": f"not done after {given.graph_seconds:.0f} s"}]
        print(f"# {path.stem} ends after {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
        if ended.returncode or not part.exists():
            last = (ended.stderr.strip().splitlines() or [f"ended with {ended.returncode}"])[-1]
            return [{"graph": path.stem, "failed": last[:200]}]
        found: list[dict[str, Any]] = json.loads(part.read_text())
        return found


def _alone(given: argparse.Namespace, limits: Sequence[SaturationLimits]) -> None:
    """Compare on one graph, in this process."""
    size = int(given.memory_gib * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    mesh = one_device(given.mesh)
    warm_up_s = warm_up(mesh)
    found = compare(given.graphs[0], mesh, limits, given.ilp_seconds, given.evaluations, given.seed)
    given.json.write_text(json.dumps([{**each, "warm_up_cpu_s": warm_up_s} for each in found]))


if __name__ == "__main__":
    main()
