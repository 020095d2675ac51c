"""The cases of a conformance run: finding the cases in a folder and trying one of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from benchmarks.onnx_shapes import shape_differences
from benchmarks.shardability import shardable
from benchmarks.torch_programs import PROGRAMS, live
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.graph import Graph
from tapestry.teg.importers import ImportFailure, from_onnx, from_stablehlo, from_torch
from tapestry.teg.importers.stablehlo.entry import stablehlo_names
from tapestry.teg.interface import pack_inputs, unpack_outputs
from tapestry.teg.validate import validate

# max|a-b| <= TOLERANCE max|b| per output.
TOLERANCE = 1e-4
# Larger programs than this are not computed to compare one form with another.
MOST_FLOPS = 4e11
# Of random inputs, until results are finite: an iteration in time may blow up on arbitrary numbers.
SCALES = (1.0, 0.1, 0.01)
# Float32 results that are zero but for rounding are as large as this share of the program's largest value.
ROUNDING = 2.0**-23
STABLEHLO = ".stablehlo.mlir.gz"

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class ConformanceCase:
    """The file of a program, its kind, and the values or other file to compare it with.

    `values` are recorded values, `twin` another file of the same program. A case without a file is made when it
    is tried.
    """

    kind: str
    name: str
    file: Path | None = None
    values: Path | None = None
    twin: Path | None = None


@dataclass
class ConformanceResult:
    """The outcome of trying a case; `reason` describes the failure and is empty if there was none."""

    kind: str
    name: str
    imported: bool = False
    valued: bool = False
    matched: bool = False
    blocks: int = 0
    shapes: int = 0
    carried: int = 0
    flops_share: float = 0.0
    bytes_share: float = 0.0
    seconds: float = 0.0
    reason: str = ""
    unsplit_bytes: dict[str, int] = field(default_factory=dict)


def find_cases(folder: Path) -> Iterator[ConformanceCase]:
    """Yield the cases of all programs below a folder, by kind and name."""
    for file in sorted(folder.rglob("*.onnx")):
        values = file.with_suffix(".npz")
        yield (
            ConformanceCase("tiny", file.stem, file, values)
            if values.exists()
            else ConformanceCase("full", file.stem, file)
        )
    for file in sorted(folder.rglob(f"*{STABLEHLO}")):
        name = file.name.removesuffix(STABLEHLO)
        if name.endswith(".tiny"):
            continue
        tiny = file.with_name(f"{name}.tiny{STABLEHLO}")
        values = file.with_name(f"{name}.tiny.npz")
        yield ConformanceCase("stablehlo", name, file, values if tiny.exists() and values.exists() else None)
    models = {file.stem: file for file in folder.rglob("*.onnx") if not file.with_suffix(".npz").exists()}
    for kind in ("fx", "pt2json"):
        for file in sorted(folder.rglob(f"{kind}/*.json.gz")):
            name = file.name.removesuffix(".json.gz")
            yield ConformanceCase("torch", f"{kind}/{name}", file, twin=models.get(name))
    if find_spec("torch") is not None:
        yield from (ConformanceCase("torch", f"live/{name}") for name in PROGRAMS)


def try_case(case: ConformanceCase) -> ConformanceResult:
    """Import and validate a program, then compare or measure it according to the kind of case."""
    outcome = ConformanceResult(case.kind, case.name)
    began = time.perf_counter()
    try:
        TRY[case.kind](case, outcome)
    except ImportFailure as failure:
        outcome.reason = str(failure)
    except Exception as error:  # a fault of ours is an outcome too
        outcome.reason = f"{type(error).__name__}: {error}"
    outcome.seconds = round(outcome.seconds or time.perf_counter() - began, 3)
    return outcome


def admit(graph: Graph, outcome: ConformanceResult) -> None:
    """Record an imported graph in the outcome; a graph that does not validate does not count as imported.

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
    """Describe the difference between the values found and those recorded; empty if there is none.

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
    """Read the inputs and outputs of an `.npz` file, by name."""
    with np.load(path) as stored:
        inputs = {k.removeprefix("in:"): stored[k] for k in stored if k.startswith("in:")}
        outputs = {k.removeprefix("out:"): stored[k] for k in stored if k.startswith("out:")}
    return inputs, outputs


def _timed(outcome: ConformanceResult, load: Callable[[], Graph]) -> Graph:
    """Load a graph and return it; only the import counts as the time of the outcome."""
    began = time.perf_counter()
    graph = load()
    outcome.seconds = time.perf_counter() - began
    return graph


def _full(case: ConformanceCase, outcome: ConformanceResult) -> None:
    graph = _timed(outcome, lambda: from_onnx(_file(case)))
    admit(graph, outcome)
    outcome.shapes, wrong = shape_differences(_file(case))
    if wrong:
        raise ValueError(f"{len(wrong)} shapes are not those that ONNX infers; the first: {wrong[0]}")
    _measure(graph, outcome)


def _measure(graph: Graph, outcome: ConformanceResult) -> None:
    """Record how much of a program's work splits."""
    share = shardable(graph)
    outcome.flops_share, outcome.bytes_share = share.flops_share, share.bytes_share
    outcome.unsplit_bytes = dict(share.unsplit_bytes)


def _compare(found: Arrays, outputs: Arrays, outcome: ConformanceResult) -> None:
    outcome.valued = True
    outcome.reason = difference(found, outputs)
    outcome.matched = not outcome.reason


def _results(graph: Graph, inputs: Arrays) -> dict[str, np.ndarray]:
    return unpack_outputs(graph, evaluate(graph, pack_inputs(graph, inputs)))


def _file(case: ConformanceCase) -> Path:
    assert case.file is not None
    return case.file


def _tiny(case: ConformanceCase, outcome: ConformanceResult) -> None:
    assert case.values is not None
    graph = _timed(outcome, lambda: from_onnx(_file(case)))
    admit(graph, outcome)
    inputs, outputs = recorded(case.values)
    _compare(_results(graph, inputs), outputs, outcome)


def _stablehlo(case: ConformanceCase, outcome: ConformanceResult) -> None:
    """Import and measure the program; compare its tiny form with recorded values, numbered by input and result."""
    whole = _timed(outcome, lambda: from_stablehlo(_file(case)))
    admit(whole, outcome)
    _measure(whole, outcome)
    if case.values is None:
        return
    tiny = _file(case).with_name(f"{case.name}.tiny{STABLEHLO}")
    graph = from_stablehlo(tiny)
    ins, outs = stablehlo_names(tiny)
    inputs, outputs = recorded(case.values)
    found = _results(graph, {ins[int(k)]: v for k, v in inputs.items()})
    _compare(found, {outs[int(k)]: v for k, v in outputs.items()}, outcome)


def _torch(case: ConformanceCase, outcome: ConformanceResult) -> None:
    """Import a PyTorch program and compare its values.

    A live program has its own outputs to compare with. A dump holds no values: where the same program is there in ONNX,
    and small enough, both must agree.
    """
    if case.file is None:
        made = live(case.name.removeprefix("live/"))
        admit(made.graph, outcome)
        _compare(_results(made.graph, made.inputs), made.outputs, outcome)
        return
    graph = _timed(outcome, lambda: from_torch(_file(case)))
    admit(graph, outcome)
    _measure(graph, outcome)
    if case.twin is None or shardable(graph).flops > MOST_FLOPS:
        return
    twin = from_onnx(case.twin)
    pairs = _paired(twin, graph)
    if pairs is None:
        return
    drawn = unpacked_inputs(twin, random_inputs(twin, np.random.default_rng(0)))
    for scale in SCALES:
        inputs = {k: v * v.dtype.type(scale) if v.dtype.kind == "f" else v for k, v in drawn.items()}
        with np.errstate(over="ignore", invalid="ignore"):
            wanted = list(_results(twin, inputs).values())
        if all(np.isfinite(w).all() for w in wanted):
            found = _results(graph, {pairs[site]: value for site, value in inputs.items()})
            sinks = [sink.site for sink in graph.sinks]
            _compare(found, dict(zip(sinks, wanted, strict=True)), outcome)
            return


def unpacked_inputs(graph: Graph, values: Arrays) -> dict[str, np.ndarray]:
    """Reshape values of sources to the shapes that the imported program states."""
    shapes = {
        s.site: s.definition.get("logical_shape", graph.tensors[s.outputs[0]].shape) for s in graph.sources
    }
    return {site: value.reshape(shapes[site]) for site, value in values.items()}


def _paired(twin: Graph, graph: Graph) -> dict[str, str] | None:
    """Map sources of one graph to those of another of the same program, by name or else by order; None if none fit."""
    theirs, ours = _open_sources(twin), _open_sources(graph)
    if theirs.keys() == ours.keys():
        return {site: site for site in theirs}
    if list(theirs.values()) == list(ours.values()):
        return dict(zip(theirs, ours, strict=True))
    return None


def _open_sources(graph: Graph) -> dict[str, tuple[int, ...]]:
    """Return the sources without data by site, with their logical shapes."""
    return {
        s.site: s.definition.get("logical_shape", graph.tensors[s.outputs[0]].shape)
        for s in graph.sources
        if s.outputs[0] not in graph.data
    }


TRY: Mapping[str, Callable[[ConformanceCase, ConformanceResult], None]] = {
    "full": _full,
    "tiny": _tiny,
    "stablehlo": _stablehlo,
    "torch": _torch,
}
