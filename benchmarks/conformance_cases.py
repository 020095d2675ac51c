"""The cases of a conformance run: what a folder holds, and what trying one of them gives."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.shardability import shardable
from teg.evaluate import evaluate
from teg.graph import Graph
from teg.importers import ImportFailure, from_onnx, from_stablehlo
from teg.importers.stablehlo.entry import stablehlo_names
from teg.interface import pack_inputs, unpack_outputs
from teg.validate import validate

# max|a-b| <= TOLERANCE max|b| per output.
TOLERANCE = 1e-4
# Float32 results that are zero but for rounding are as large as this share of the program's largest value.
ROUNDING = 2.0**-23
STABLEHLO = ".stablehlo.mlir.gz"

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """A program's file, what kind of program it is, and the values recorded for it, if any."""

    kind: str
    name: str
    file: Path
    values: Path | None = None


@dataclass
class Outcome:
    """What trying a case gave; `reason` says what went wrong, and is empty where nothing did."""

    kind: str
    name: str
    imported: bool = False
    valued: bool = False
    matched: bool = False
    blocks: int = 0
    carried: int = 0
    flops_share: float = 0.0
    bytes_share: float = 0.0
    seconds: float = 0.0
    reason: str = ""
    unsplit_bytes: dict[str, int] = field(default_factory=dict)


def find_cases(folder: Path) -> Iterator[Case]:
    """All programs below a folder, by kind and name."""
    for file in sorted(folder.rglob("*.onnx")):
        values = file.with_suffix(".npz")
        yield Case("tiny", file.stem, file, values) if values.exists() else Case("full", file.stem, file)
    for file in sorted(folder.rglob(f"*{STABLEHLO}")):
        name = file.name.removesuffix(STABLEHLO)
        if name.endswith(".tiny"):
            continue
        tiny = file.with_name(f"{name}.tiny{STABLEHLO}")
        values = file.with_name(f"{name}.tiny.npz")
        yield Case("stablehlo", name, file, values if tiny.exists() and values.exists() else None)
    for kind in ("fx", "pt2json"):
        for file in sorted(folder.rglob(f"{kind}/*.json.gz")):
            yield Case("torch", f"{kind}/{file.name.removesuffix('.json.gz')}", file)


def try_case(case: Case) -> Outcome:
    """Import, validate, and compare or measure, as the kind of case asks."""
    outcome = Outcome(case.kind, case.name)
    began = time.perf_counter()
    try:
        TRY[case.kind](case, outcome)
    except ImportFailure as failure:
        outcome.reason = str(failure)
    except Exception as error:  # a fault of ours is an outcome too
        outcome.reason = f"{type(error).__name__}: {error}"
    outcome.seconds = round(outcome.seconds or time.perf_counter() - began, 3)
    return outcome


def admit(graph: Graph, outcome: Outcome) -> None:
    """Note what came in; a graph that does not validate has not.

    Raises:
        ValueError: it has issues.
    """
    issues = validate(graph)
    if issues:
        raise ValueError(f"the graph has {len(issues)} issues, the first: {issues[0]}")
    outcome.imported = True
    outcome.blocks = len(graph.blocks)
    outcome.carried = sum(s.definition.get("carries") is not None for s in graph.sinks)


def difference(found: Arrays, recorded: Arrays) -> str:
    """What differs between the values found and those recorded, or nothing.

    An output below rounding (the gradient of a key's bias is zero in theory) only has to stay below it.
    """
    largest = max(
        (float(np.max(np.abs(a))) for a in recorded.values() if a.size and a.dtype.kind in "fc"), default=0.0
    )
    for name, wanted in recorded.items():
        if name not in found:
            return f"there is no output {name!r}"
        got = found[name]
        if got.shape != wanted.shape:
            return f"output {name!r} has shape {list(got.shape)}, recorded is {list(wanted.shape)}"
        wide = [
            np.asarray(a, dtype=np.complex128 if wanted.dtype.kind == "c" else np.float64)
            for a in (got, wanted)
        ]
        if wanted.size == 0:
            continue
        worst = float(np.max(np.abs(wide[0] - wide[1])))
        if not worst <= max(TOLERANCE * float(np.max(np.abs(wide[1]))), ROUNDING * largest):
            return (
                f"output {name!r} differs by {worst:.3g}, its largest value is {np.max(np.abs(wide[1])):.3g}"
            )
    return ""


def recorded(path: Path) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Inputs and outputs of an `.npz` file, by name."""
    with np.load(path) as stored:
        inputs = {k.removeprefix("in:"): stored[k] for k in stored if k.startswith("in:")}
        outputs = {k.removeprefix("out:"): stored[k] for k in stored if k.startswith("out:")}
    return inputs, outputs


def _timed(outcome: Outcome, load: Callable[[], Graph]) -> Graph:
    """The graph; only its import counts as time."""
    began = time.perf_counter()
    graph = load()
    outcome.seconds = time.perf_counter() - began
    return graph


def _full(case: Case, outcome: Outcome) -> None:
    graph = _timed(outcome, lambda: from_onnx(case.file))
    admit(graph, outcome)
    share = shardable(graph)
    outcome.flops_share, outcome.bytes_share = share.flops_share, share.bytes_share
    outcome.unsplit_bytes = dict(share.unsplit_bytes)


def _compare(graph: Graph, inputs: Arrays, outputs: Arrays, outcome: Outcome) -> None:
    outcome.valued = True
    outcome.reason = difference(unpack_outputs(graph, evaluate(graph, pack_inputs(graph, inputs))), outputs)
    outcome.matched = not outcome.reason


def _tiny(case: Case, outcome: Outcome) -> None:
    assert case.values is not None
    graph = _timed(outcome, lambda: from_onnx(case.file))
    admit(graph, outcome)
    _compare(graph, *recorded(case.values), outcome)


def _stablehlo(case: Case, outcome: Outcome) -> None:
    """The program at its size, and its tiny twin against the recorded values, which are named by position."""
    graph = _timed(outcome, lambda: from_stablehlo(case.file))
    admit(graph, outcome)
    share = shardable(graph)
    outcome.flops_share, outcome.bytes_share = share.flops_share, share.bytes_share
    if case.values is not None:
        twin = case.file.with_name(f"{case.name}.tiny{STABLEHLO}")
        named = [
            {names[int(k)]: value for k, value in arrays.items()}
            for names, arrays in zip(stablehlo_names(twin), recorded(case.values), strict=True)
        ]
        _compare(from_stablehlo(twin), named[0], named[1], outcome)


TRY: Mapping[str, Callable[[Case, Outcome], None]] = {"full": _full, "tiny": _tiny, "stablehlo": _stablehlo}
