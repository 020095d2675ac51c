"""Epochs and their answers as bytes: for workers that are reached by a database. Nothing in them is ever executed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tapestry.optimizer.archive.archive import Archive
from tapestry.optimizer.archive.goal import Goal
from tapestry.optimizer.archive.rows import ArchiveChange
from tapestry.optimizer.placement.credits import Odds, Statistics
from tapestry.optimizer.run.serialization import SerializationError, deserialize, serialize
from tapestry.optimizer.run.variant_arrays import VariantArrays
from tapestry.optimizer.run.workers import Epoch, EpochAnswer

EPOCH, ANSWER = b"tapestry epoch 1\n", b"tapestry answer 1\n"
PARTS: Mapping[str, type[Archive] | type[Goal] | type[Odds]] = {
    "archive": Archive,
    "goal": Goal,
    "odds": Odds,
}


class EpochError(ValueError):
    """Error raised for bytes that are no epoch, or no answer to one."""


def epoch_bytes(epoch: Epoch) -> bytes:
    """Serialize an epoch; of its variant only the token, by which the arrays are found."""
    header = {
        "variant": epoch.variant.token,
        "capacity": list(epoch.capacity),
        "evaluations": epoch.evaluations,
        "is_apart": epoch.is_apart,
        "evaluated_before": epoch.evaluated_before,
    }
    arrays = {"random_state": epoch.random_state}
    for prefix in PARTS:
        arrays |= {f"{prefix}.{name}": array for name, array in getattr(epoch, prefix)._asdict().items()}
    return serialize(EPOCH, header, arrays)


def parse_epoch(content: bytes, path: str = "") -> Epoch:
    """Deserialize an epoch whose variant's arrays are in the file `path`.

    Raises:
        EpochError: the bytes are damaged, of another version, or no epoch.
    """
    header, arrays = _read(EPOCH, content, "epoch")
    try:
        parts: dict[str, Any] = {
            prefix: kind(**{name: arrays.pop(f"{prefix}.{name}") for name in kind._fields})
            for prefix, kind in PARTS.items()
        }
        front, pool = header["capacity"]
        found = Epoch(
            VariantArrays(header["variant"], path),
            capacity=(int(front), int(pool)),
            random_state=arrays.pop("random_state"),
            evaluations=int(header["evaluations"]),
            is_apart=bool(header["is_apart"]),
            evaluated_before=int(header["evaluated_before"]),
            **parts,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise EpochError(f"these {len(content)} bytes are no epoch: {error!r}") from error
    _check_all_read(arrays, content)
    return found


def answer_bytes(answer: EpochAnswer) -> bytes:
    """Serialize the answer to an epoch."""
    change = answer.change
    arrays = {
        "front_from": change.front_from,
        "pool_from": change.pool_from,
        "violation": change.violation,
        "best": answer.best,
        **{f"rows.{name}": array for name, array in change.rows.items()},
        **{f"statistics.{name}": array for name, array in answer.statistics._asdict().items()},
    }
    return serialize(ANSWER, {"evaluations": answer.evaluations}, arrays)


def parse_answer(content: bytes) -> EpochAnswer:
    """Deserialize the answer to an epoch.

    Raises:
        EpochError: the bytes are damaged, of another version, or no answer.
    """
    header, arrays = _read(ANSWER, content, "answer to an epoch")
    try:
        names = [name for name in arrays if name.startswith("rows.")]
        rows = {name.removeprefix("rows."): arrays.pop(name) for name in names}
        change = ArchiveChange(
            arrays.pop("front_from"), arrays.pop("pool_from"), arrays.pop("violation"), rows
        )
        counts = {name: arrays.pop(f"statistics.{name}") for name in Statistics._fields}
        found = EpochAnswer(change, Statistics(**counts), int(header["evaluations"]), arrays.pop("best"))
    except (KeyError, TypeError, ValueError) as error:
        raise EpochError(f"these {len(content)} bytes are no answer to an epoch: {error!r}") from error
    _check_all_read(arrays, content)
    return found


def _read(magic: bytes, content: bytes, what: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    try:
        return deserialize(magic, content)
    except SerializationError as error:
        raise EpochError(f"these {len(content)} bytes are no {what}: {error}") from error


def _check_all_read(arrays: Mapping[str, np.ndarray], content: bytes) -> None:
    if arrays:
        raise EpochError(f"these {len(content)} bytes also hold {', '.join(sorted(arrays))}")
