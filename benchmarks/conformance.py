"""Conformance of the importers: imported programs against recorded values, and the share of their work that splits.

    python -m benchmarks.conformance [--graphs DIR] [--onnx-suite] --json FILE

In DIR an ONNX file with an `.npz` of its name beside it is a tiny graph: its values must match the recorded ones
(`in:NAME`, `out:NAME`). Any other ONNX file is a full graph: it must validate, agree with ONNX's own shape inference,
and nearly all of its work must split. `*.stablehlo.mlir.gz` are JAX's programs, `fx/` and `pt2json/` PyTorch's.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.conformance_cases import ConformanceCase, ConformanceResult, find_cases, try_case
from benchmarks.setting import ROOT, write

DEFAULT = ROOT / "tests" / "data" / "graphs"


def run(
    cases: Sequence[ConformanceCase], reported: Callable[[ConformanceResult], None]
) -> list[ConformanceResult]:
    """Try each case, report its outcome to `reported` as it is found, and return all outcomes."""
    outcomes = []
    for case in cases:
        outcome = try_case(case)
        reported(outcome)
        outcomes.append(outcome)
    return outcomes


def totals(outcomes: Sequence[ConformanceResult]) -> dict[str, Any]:
    """Compute the figures of the summary, by name; a minimum over no graphs is 1."""

    def count(kind: str, what: str | None = None) -> int:
        return sum(o.kind == kind and (what is None or bool(getattr(o, what))) for o in outcomes)

    full = [o for o in outcomes if o.kind == "full"]
    return {
        "full_total": len(full),
        "full_imported": count("full", "imported"),
        "tiny_total": count("tiny"),
        "tiny_matched": count("tiny", "matched"),
        "shardable_flops_min": min((o.flops_share for o in full), default=1.0),
        "shardable_bytes_min": min((o.bytes_share for o in full), default=1.0),
        "stablehlo_total": count("stablehlo"),
        "stablehlo_imported": count("stablehlo", "imported"),
        "stablehlo_valued": count("stablehlo", "valued"),
        "stablehlo_matched": count("stablehlo", "matched"),
        "torch_total": count("torch"),
        "torch_imported": count("torch", "imported"),
        "torch_valued": count("torch", "valued"),
        "torch_matched": count("torch", "matched"),
    }


def failures(outcomes: Sequence[ConformanceResult]) -> Iterator[dict[str, str]]:
    """Yield the kind, name and reason of each case that was not imported or failed a check."""
    for o in outcomes:
        if o.reason:
            yield {"kind": o.kind, "name": o.name, "reason": o.reason}


def onnx_suite() -> dict[str, Any]:
    """Run onnx's own node cases and return their figures."""
    from benchmarks.onnx_suite import run_suite

    result = run_suite()
    return {
        "onnx_suite_total": result.total,
        "onnx_suite_matched": result.matched,
        "onnx_suite_native": result.native,
        "onnx_suite_refused": result.refused,
        "onnx_suite_failures": [{"name": name, "reason": reason} for name, reason in result.failures],
    }


def _line(o: ConformanceResult) -> str:
    state = "failed" if o.reason else "matched" if o.matched else "imported"
    share = f"  flops {o.flops_share:.4f}  bytes {o.bytes_share:.4f}" if o.blocks and o.flops_share else ""
    return (
        f"{o.kind:9s} {o.name:44s} {state:8s} {o.seconds:6.2f} s{share}{'  ' + o.reason if o.reason else ''}"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Try every case in a folder; return 1 if any of them failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--graphs", type=Path, metavar="DIR", default=DEFAULT, help=f"default: {DEFAULT.name}"
    )
    parser.add_argument("--onnx-suite", action="store_true", help="run onnx's own node cases too")
    parser.add_argument("--only", metavar="TEXT", default="", help="names that contain TEXT")
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args(argv)
    if not given.graphs.is_dir():
        print(f"there is no folder {str(given.graphs)!r}", file=sys.stderr)
        return 2
    began = time.perf_counter()
    cases = [c for c in find_cases(given.graphs) if given.only in c.name]
    outcomes = run(cases, lambda o: print(_line(o), flush=True))
    figures = totals(outcomes)
    suite = ("total", "matched", "native", "refused")
    figures |= onnx_suite() if given.onnx_suite else {f"onnx_suite_{name}": 0 for name in suite}
    figures["failures"] = list(failures(outcomes))
    figures["cases"] = [asdict(o) for o in outcomes]
    figures["seconds"] = round(time.perf_counter() - began, 1)
    write(given.json, figures)
    for name, value in figures.items():
        if isinstance(value, int | float):
            print(f"{name}: {value:.6g}")
    return 1 if figures["failures"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
