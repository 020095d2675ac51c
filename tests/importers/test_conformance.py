"""ONNX's own node tests: whatever imports gives the expected values; whatever does not is refused in one line."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

from teg.importers import ImportFailure, from_onnx
from tests.importers.models import run

# Inputs that give shapes and the like: our programs know them at import.
STRUCTURAL = frozenset(
    "axes axis pads shape new_shape split starts ends steps repeats scales sizes K k t".split()  # noqa: SIM905
)

# A row of which everything is masked: the standard says 0, a softmax over nothing is not a number.
DIFFERENT = frozenset(
    {
        "test_attention_causal_boolmask_nan_robustness",
        "test_attention_23_boolmask_fullymasked_row_nan_robustness",
    }
)


def array(value: Any) -> np.ndarray:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def cases() -> Iterator[tuple[str, onnx.ModelProto, list[Any]]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in load_model_tests(kind="node"):
            if case.model is not None and case.data_sets:
                yield case.name, case.model, case.data_sets


def with_structure(model: onnx.ModelProto, inputs: list[Any]) -> onnx.ModelProto:
    known = {t.name for t in model.graph.initializer}
    for info, value in zip(model.graph.input, inputs, strict=False):
        if info.name in STRUCTURAL - known and array(value).ndim <= 1:
            model.graph.initializer.append(numpy_helper.from_array(array(value), info.name))
    return model


def close(found: np.ndarray | None, wanted: np.ndarray) -> bool:
    if found is None or found.shape != wanted.shape or found.dtype != wanted.dtype:
        return False
    if wanted.dtype.kind in "biu":
        return np.array_equal(found, wanted)
    wide = [a.astype(np.float64) for a in (found, wanted)]
    half = wanted.dtype.itemsize <= 2
    return bool(np.allclose(*wide, rtol=2e-2 if half else 1e-3, atol=1e-2 if half else 1e-5, equal_nan=True))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_nodes_give_what_the_standard_says() -> None:
    right, refused, wrong = 0, 0, []
    for name, model, data_sets in cases():
        try:
            graph = from_onnx(with_structure(model, data_sets[0][0]))
        except ImportFailure as failure:
            assert "\n" not in str(failure)
            refused += 1
            continue
        for inputs, outputs in data_sets:
            names = [i.name for i in model.graph.input]
            known = {t.name for t in model.graph.initializer}
            given = {n: array(x) for n, x in zip(names, inputs, strict=False) if n not in known}
            found = run(graph, given)
            results = zip(model.graph.output, outputs, strict=True)
            # An input that is an output as well has the input's name; the sink gets `.out`.
            if all(close(found.get(o.name, found.get(f"{o.name}.out")), array(w)) for o, w in results):
                right += 1
            else:
                wrong.append(name)
    assert set(wrong) <= DIFFERENT
    assert right > 960, f"{right} right, {refused} refused"
