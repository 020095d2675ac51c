"""Rows of measurements from files of `{"entries": [...]}`: checked, with the value apart from the question."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from benchmarks.measurements.launches import CAPTURED, SourceLaunch, known_sources, launch_of
from tapestry.hardware.device import LAUNCHES
from tapestry.teg.faults import joined, one_of, value_text

# Inputs that count devices, and the most of them: an exchange is computed for every pair, 4096 of them in 1 GB.
DEVICE_COUNTS = ("ranks", "nodes", "ranks_per_node", "tensor_parallel")
MOST_DEVICES = 4096


class DamagedRowsError(ValueError):
    """Error raised for files that are no measurements; `faults` are all reasons, each with file, row and key."""

    def __init__(self, *faults: str) -> None:
        super().__init__(joined(faults))
        self.faults = faults


@dataclass(frozen=True)
class Question:
    """All that a predictor is given of a row: what was measured, on what, and in which quantity and unit.

    `launch` says whether the host launched kernels one by one (`eager`) or they ran back to back (`captured`); rows
    state it, or their source is known for it (`launches.toml`).
    """

    kind: str
    device_id: str | None
    inputs: Mapping[str, Any]
    quantity: str
    unit: str
    launch: str = CAPTURED


@dataclass(frozen=True)
class Measurement:
    """A measurement: a question, its measured value in SI units, and whether the row counts.

    `quality` is "ok" or says why the value is not to be trusted; `predictable` is false where `inputs` do not state
    what is needed. `source` is the text that says where the row was published.
    """

    id: str
    group: str
    question: Question
    value: float
    predictable: bool
    quality: str
    source: str = ""

    @property
    def counts(self) -> bool:
        """True if a prediction of the row is scored."""
        return self.predictable and self.quality == "ok"


# Key of a row -> (test of its value, what is expected).
KEYS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "id": (lambda value: isinstance(value, str) and value != "", "a text"),
    "group": (lambda value: isinstance(value, str) and value != "", "the name of its table"),
    "kind": (lambda value: isinstance(value, str) and value != "", "a kind such as 'gemm'"),
    "inputs": (lambda value: isinstance(value, dict), "a table of what was measured"),
    "predict": (lambda value: isinstance(value, dict), "a table with quantity, unit and value"),
    "predictable": (lambda value: isinstance(value, bool), "true or false"),
    "quality": (lambda value: isinstance(value, str), "a text such as 'ok'"),
}


def read_rows(paths: Sequence[Path], sources: Sequence[SourceLaunch] | None = None) -> list[Measurement]:
    """Read the rows of all files, in order; `sources` say how rows were launched that do not state it.

    Raises:
        DamagedRowsError: a file is unreadable or no JSON, or rows lack keys, repeat an id or hold something else than
            expected; it lists all of them.
    """
    faults: list[str] = []
    known = known_sources() if sources is None else sources
    rows = [row for path in paths for row in _rows_of(path, known, faults)]
    if faults:
        raise DamagedRowsError(*faults)
    return rows


def _rows_of(path: Path, sources: Sequence[SourceLaunch], faults: list[str]) -> list[Measurement]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        faults.append(f"{path}: cannot read it: {error.strerror}")
        return []
    except ValueError as error:
        faults.append(f"{path}: not JSON: {error}")
        return []
    entries = content.get("entries") if isinstance(content, dict) else None
    if not isinstance(entries, list):
        faults.append(f"{path}: entries: expected a list of rows, not {value_text(entries)}")
        return []
    rows: list[Measurement] = []
    known: set[str] = set()
    for number, entry in enumerate(entries):
        found = _row_faults(entry)
        name = entry["id"] if isinstance(entry, dict) and isinstance(entry.get("id"), str) else ""
        if name and name in known:
            found.append(f"id: {name!r} names an earlier row too")
        known.add(name)
        where = f"{path}: row {number}" + (f" ({name})" if name else "")
        faults.extend(f"{where}: {fault}" for fault in found)
        if not found:
            rows.append(_row(entry, sources))
    return rows


def _row_faults(entry: Any) -> list[str]:
    if not isinstance(entry, dict):
        return [f"expected a table, not {value_text(entry)}"]
    faults = []
    for key, (holds, expected) in KEYS.items():
        if key not in entry:
            faults.append(f"{key}: missing; expected {expected}")
        elif not holds(entry[key]):
            faults.append(f"{key}: expected {expected}, not {value_text(entry[key])}")
    device = entry.get("device_id")
    if device is not None and not isinstance(device, str):
        faults.append(f"device_id: expected a device's name or null, not {value_text(device)}")
    predict = entry.get("predict")
    if isinstance(predict, dict):
        faults += _predict_faults(predict, bool(entry.get("predictable")))
    inputs = entry["inputs"] if isinstance(entry.get("inputs"), dict) else {}
    for place, table in (("", entry), ("inputs.", inputs)):
        if (launch := table.get("launch")) is not None and launch not in LAUNCHES:
            faults.append(f"{place}launch: expected {one_of(LAUNCHES)}, not {value_text(launch)}")
    return faults + (_count_faults(inputs) if entry.get("predictable") else [])


def _count_faults(inputs: Mapping[str, Any]) -> list[str]:
    return [
        f"inputs.{key}: expected from 1 to {MOST_DEVICES} devices, not {value_text(value)}; correct it, or state "
        "`predictable` as false to leave the row out"
        for key in DEVICE_COUNTS
        if isinstance(value := inputs.get(key), (int, float)) and value > MOST_DEVICES
    ]


def _predict_faults(predict: Mapping[str, Any], predictable: bool) -> list[str]:
    faults = [
        f"predict.{key}: expected a text, not {value_text(predict.get(key))}"
        for key in ("quantity", "unit")
        if not isinstance(predict.get(key), str)
    ]
    value = predict.get("value")
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value)
    if predictable and not (is_number and value > 0):
        faults.append(f"predict.value: expected a number above zero, not {value_text(value)}")
    return faults


def _row(entry: Mapping[str, Any], sources: Sequence[SourceLaunch]) -> Measurement:
    predict = entry["predict"]
    stated = (entry["kind"], entry.get("device_id"), entry["inputs"], predict["quantity"], predict["unit"])
    question = Question(*stated, launch_of(entry, sources))
    value = predict.get("value")
    number = float(value) if isinstance(value, (int, float)) else 0.0
    kept = (entry["predictable"], entry["quality"], str(entry.get("source") or ""))
    return Measurement(entry["id"], entry["group"], question, number, *kept)
