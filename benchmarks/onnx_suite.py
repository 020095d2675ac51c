"""ONNX's own node cases against our import and evaluation.

    python -m benchmarks.onnx_suite [--only TEXT] [--verbose]

Each case is a small model with inputs and expected outputs. It matches if the imported graph is valid and its values
are those expected: floats within the case's tolerances, everything else exactly. It may be refused if the importer
states a reason. Anything else is a failure. A case is native if its graph holds no fixed block.

If a case cannot be imported without a fixed block, or at all, operands that look like shapes (see `bindings`) are
bound as constants to the values of the case.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

from tapestry.teg.evaluate import evaluate
from tapestry.teg.graph import Graph
from tapestry.teg.importers import ImportFailure, from_onnx
from tapestry.teg.interface import pack_inputs, unpack_outputs
from tapestry.teg.validate import check

Arrays = Mapping[str, np.ndarray]

# An operand of one dimension at most and no more elements than this may be a shape, an axis or a count.
SHAPE_LIKE_ELEMENTS = 64
BFLOAT16_TOLERANCE = 2**-6

DRAWING = (
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
)

MATCHED, REFUSED, WRONG, CRASHED = "matched", "refused", "wrong", "crashed"


@dataclass(frozen=True)
class CaseOutcome:
    """The outcome of a case; `reason` if it did not match, `bound` are the operands taken from its data."""

    name: str
    state: str
    native: bool = False
    reason: str = ""
    bound: tuple[str, ...] = ()


@dataclass(frozen=True)
class SuiteResult:
    """The figures of a run: total = matched + refused + failures; `native` counts among those matched."""

    total: int
    matched: int
    native: int
    refused: int
    failures: tuple[tuple[str, str], ...]
    crashed: int


@dataclass(frozen=True)
class NodeCase:
    """A case as arrays by name; `foreign` names its values that are not tensors."""

    name: str
    model: Any
    inputs: Arrays
    outputs: Arrays
    foreign: tuple[str, ...]
    relative: float
    absolute: float


def load_cases(only: str = "") -> Iterator[NodeCase]:
    """Yield the node cases that the installed onnx package generates, those whose names contain `only`."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = load_model_tests(kind="node")
    for case in found:
        if only in case.name:
            assert case.model is not None and case.data_sets is not None
            for given, wanted in case.data_sets:
                inputs, outputs = (
                    {i.name: _array(v) for i, v in zip(infos, values, strict=False)}
                    for infos, values in ((case.model.graph.input, given), (case.model.graph.output, wanted))
                )
                foreign = tuple(n for n, v in (*inputs.items(), *outputs.items()) if v is None)
                yield NodeCase(
                    case.name,
                    case.model,
                    {n: v for n, v in inputs.items() if v is not None},
                    {n: v for n, v in outputs.items() if v is not None},
                    foreign,
                    case.rtol,
                    case.atol,
                )


def _array(value: Any) -> np.ndarray | None:
    """Convert a value of a case to an array; None for sequences, optionals and text."""
    if isinstance(value, onnx.TensorProto):
        return None if value.data_type == onnx.TensorProto.STRING else numpy_helper.to_array(value)
    if value is None or isinstance(value, list):
        return None
    array = np.asarray(value)
    return None if array.dtype.kind in "OUS" else array


def bindings(case: NodeCase) -> Iterator[tuple[str, ...]]:
    """Yield the operands to bind as constants, one set after the other: none, whole numbers, then all small ones."""
    yield ()
    small = [n for n, a in case.inputs.items() if a.ndim <= 1 and a.size <= SHAPE_LIKE_ELEMENTS]
    whole = tuple(n for n in small if case.inputs[n].dtype.kind in "iub")
    later = tuple(n for n in small if n not in list(case.inputs)[:1])
    yield from dict.fromkeys(b for b in (tuple(n for n in whole if n in later), later, whole) if b)


def bound(case: NodeCase, names: Sequence[str]) -> Any:
    """Return the case's model with these inputs as initializers."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    kept = [i for i in model.graph.input if i.name not in names]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    model.graph.initializer.extend(numpy_helper.from_array(case.inputs[n], n) for n in names)
    return model


def try_case(case: NodeCase) -> CaseOutcome:
    """Import a case with as few operands bound as it takes to be native, else to be imported at all; then compare."""
    best: tuple[Graph, tuple[str, ...]] | None = None
    refusal = ""
    try:
        for names in bindings(case):
            try:
                graph = from_onnx(bound(case, names))
            except ImportFailure as failure:
                refusal = refusal or str(failure)
                continue
            if best is None or is_native(graph):
                best = graph, names
            if is_native(graph):
                break
        if best is None:
            return CaseOutcome(case.name, REFUSED, reason=refusal)
        graph, names = best
        check(graph)
        reason = compare(case, run(graph, {n: a for n, a in case.inputs.items() if n not in names}))
    except Exception as error:  # a fault of ours is an outcome too
        return CaseOutcome(case.name, CRASHED, reason=f"{type(error).__name__}: {error}")
    state = WRONG if reason else MATCHED
    return CaseOutcome(case.name, state, is_native(graph), reason, names)


def is_native(graph: Graph) -> bool:
    """Return whether operators of ours express the whole graph."""
    return all(b.operator != "onnx" for b in graph.blocks)


def run(graph: Graph, inputs: Arrays) -> dict[str, np.ndarray]:
    """Evaluate the graph and return its outputs by name, at the shapes of the model."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return unpack_outputs(graph, evaluate(graph, pack_inputs(graph, inputs)))


def compare(case: NodeCase, found: Arrays) -> str:
    """Describe what is wrong with the outputs found; empty if nothing is."""
    for name, wanted in case.outputs.items():
        got = found.get(name, found.get(f"{name}.out"))
        if got is None:
            return f"there is no output {name!r}"
        if (got.shape, got.dtype) != (wanted.shape, wanted.dtype):
            return f"output {name!r} is {got.dtype}{list(got.shape)}, expected {wanted.dtype}{list(wanted.shape)}"
        drawn = any(node.op_type in DRAWING for node in case.model.graph.node)
        wrong = "" if drawn else _difference(got, wanted, case.relative, case.absolute)
        if wrong:
            return f"output {name!r} {wrong}"
    return ""


def _difference(got: np.ndarray, wanted: np.ndarray, relative: float, absolute: float) -> str:
    if wanted.dtype.kind in "biu":
        count = int(np.sum(got != wanted))
        return f"differs in {count} of {wanted.size} elements" if count else ""
    if (
        wanted.dtype.kind not in "fc"
    ):  # extended types: exact for those that numpy cannot compare with a tolerance
        relative = max(relative, BFLOAT16_TOLERANCE if wanted.dtype.name == "bfloat16" else 0.0)
        got, wanted = got.astype(np.float32), wanted.astype(np.float32)
    if not np.array_equal(np.isnan(got), np.isnan(wanted)):
        return f"has {np.isnan(got).sum()} elements that are no numbers, expected {np.isnan(wanted).sum()}"
    if np.allclose(got, wanted, rtol=relative, atol=absolute, equal_nan=True):
        return ""
    return f"differs by up to {np.nanmax(np.abs(got - wanted)):.3g}"


def run_suite(only: str = "", reported: Callable[[CaseOutcome], None] = lambda _: None) -> SuiteResult:
    """Run all node cases, or those whose names contain `only`; report each outcome to `reported` as it is found."""
    outcomes = []
    for case in load_cases(only):
        outcome = try_case(case)
        reported(outcome)
        outcomes.append(outcome)
    states = Counter(o.state for o in outcomes)
    return SuiteResult(
        total=len(outcomes),
        matched=states[MATCHED],
        native=sum(o.native and o.state == MATCHED for o in outcomes),
        refused=states[REFUSED],
        failures=tuple((o.name, o.reason) for o in outcomes if o.state in (WRONG, CRASHED)),
        crashed=states[CRASHED],
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the suite; return 1 if anything failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", metavar="TEXT", default="", help="names that contain TEXT")
    parser.add_argument("--verbose", action="store_true", help="all cases, not only those without a match")
    given = parser.parse_args(argv)
    began = time.perf_counter()

    def reported(o: CaseOutcome) -> None:
        if given.verbose or o.state != MATCHED:
            how = "native" if o.native else "fixed" if o.state == MATCHED else ""
            print(f"{o.state:8s} {how:6s} {o.name} {' '.join(o.bound)} {o.reason}", flush=True)
        elif sys.stderr.isatty():
            print(f"\r{o.name:60.60s}", end="", file=sys.stderr, flush=True)

    result = run_suite(given.only, reported)
    print(
        f"{result.total} cases in {time.perf_counter() - began:.0f} s: {result.matched} matched "
        f"({result.native} natively), {result.refused} refused, {len(result.failures)} failed"
    )
    return 1 if result.failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
