"""Predictions of rows through the product: a question becomes a workload, and the simulator times its plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from benchmarks.measurements.exchanges import collective, link_bandwidth
from benchmarks.measurements.kernels import attention, gemm, memory_bound, stream
from benchmarks.measurements.layers import layer_operator
from benchmarks.measurements.rows import Measurement, Question
from benchmarks.measurements.systems import Systems
from benchmarks.measurements.training_layer import training_layer
from benchmarks.measurements.training_step import Iteration
from benchmarks.measurements.workload import UnpredictedError, Workload

# Kind of a row -> how its workload is built. Rows of other kinds have no prediction.
KINDS: Mapping[str, Callable[[Question, Systems], Workload | Iteration]] = {
    "gemm": gemm,
    "memory_bound_op": memory_bound,
    "attention": attention,
    "memory_bandwidth": stream,
    "operator": layer_operator,
    "layer_time": training_layer,
    "training_iteration": Iteration,
    "collective": collective,
    "link_bandwidth": link_bandwidth,
}


class PredictedValue(NamedTuple):
    """A predicted value and the standard deviation of the logarithm of measured over predicted."""

    value: float
    sigma: float


@dataclass(frozen=True)
class Prediction:
    """The prediction of one row: a value in the row's unit, or the reason why there is none.

    `sigma` is the standard deviation of the logarithm of measured over predicted.
    """

    row: Measurement
    value: float | None
    sigma: float | None = None
    reason: str = ""

    @property
    def error(self) -> float:
        """The signed relative error: 0.1 if 10 % more is predicted than measured."""
        assert self.value is not None
        return self.value / self.row.value - 1


def workload_of(question: Question, systems: Systems) -> Workload | Iteration:
    """Build the workload whose time answers a question.

    Raises:
        UnpredictedError: there is none; the message is the reason.
    """
    if question.kind not in KINDS:
        raise UnpredictedError(
            f"rows of kind {question.kind!r} have no program; known are {', '.join(KINDS)}"
        )
    return KINDS[question.kind](question, systems)


def answer(question: Question, systems: Systems) -> PredictedValue:
    """Predict what a question asks for, in its unit.

    Raises:
        UnpredictedError: there is no prediction; the message is the reason.
    """
    try:
        workload = workload_of(question, systems)
        return PredictedValue(workload.value(question.quantity, question.unit), workload.error())
    except UnpredictedError:
        raise
    except (ValueError, OverflowError) as error:  # a missing figure, or sizes beyond what the product counts
        raise UnpredictedError(str(error)) from error


def predict(rows: Iterable[Measurement], systems: Systems | None = None) -> Iterator[Prediction]:
    """Predict rows one after the other, on the systems of the catalog unless others are given."""
    known = Systems.of_catalog() if systems is None else systems
    for row in rows:
        try:
            value, sigma = answer(row.question, known)
            yield Prediction(row, value, sigma)
        except UnpredictedError as error:
            yield Prediction(row, None, reason=str(error))
