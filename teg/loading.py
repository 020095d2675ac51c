"""Costs of loading: what it takes to bring a tensor to the devices from outside, as a program or a user states it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, cast

from tapestry.teg.faults import ArgumentError

PREFIX = "load_"
# The attributes of a source that state its cost.
LOAD_ATTRIBUTES = ("load_bytes_per_s", "load_device", "load_seconds")


@dataclass(frozen=True)
class LoadCost:
    """The cost of loading a tensor from outside: `seconds`, and its bytes at `bytes_per_s` (None: at no cost).

    `device` holds the tensor when it is loaded, such as `gpu:3` or `node:1,gpu:3`: from there its parts go to the other
    devices. Without it each device loads its own part, one after the other.

    Raises:
        ArgumentError: seconds that are negative or not finite, a rate that is not above 0, or a device that is no text.
    """

    seconds: float = 0.0
    bytes_per_s: float | None = None
    device: str = ""

    def __post_init__(self) -> None:
        faults, device = list[str](), cast(object, self.device)
        if not _is_number(self.seconds) or self.seconds < 0:
            faults.append(f"seconds: expected a number of at least 0, not {self.seconds!r}")
        if self.bytes_per_s is not None and not (_is_number(self.bytes_per_s) and self.bytes_per_s > 0):
            faults.append(f"bytes_per_s: expected a number above 0, not {self.bytes_per_s!r}")
        if not isinstance(device, str):
            faults.append(f"device: expected coordinates such as gpu:3, not {device!r}")
        if faults:
            raise ArgumentError(*faults)

    def time_s(self, size_bytes: int) -> float:
        """Return the seconds to load so many bytes."""
        return self.seconds + (0.0 if self.bytes_per_s is None else size_bytes / self.bytes_per_s)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> LoadCost:
        return cls(**document)

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes of a source that state this cost."""
        stated = {PREFIX + name: value for name, value in asdict(self).items()}
        return {name: value for name, value in stated.items() if value}


def load_of(attributes: Mapping[str, Any]) -> LoadCost | None:
    """Return the cost that the attributes of a source state; None where they state none.

    Raises:
        ArgumentError: values that no cost has.
    """
    stated = {name.removeprefix(PREFIX): attributes[name] for name in LOAD_ATTRIBUTES if name in attributes}
    return LoadCost(**stated) if stated else None


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
