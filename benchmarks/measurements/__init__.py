"""Published measurements as questions to the product: rows, their programs and meshes, predictions and scores."""

from benchmarks.measurements.prediction import Prediction, answer, predict
from benchmarks.measurements.rows import DamagedRowsError, Measurement, Question, read_rows
from benchmarks.measurements.systems import Systems
from benchmarks.measurements.workload import UnpredictedError, Workload

__all__ = [
    "DamagedRowsError",
    "Measurement",
    "Prediction",
    "Question",
    "Systems",
    "UnpredictedError",
    "Workload",
    "answer",
    "predict",
    "read_rows",
]
