"""A StableHLO module as plain Python values: functions, regions, operations; values are numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Type:
    """Shape and element type of a tensor; `parts` are the types in a tuple."""

    shape: tuple[int, ...]
    dtype: str
    parts: tuple[Type, ...] | None = None


@dataclass(frozen=True)
class Operation:
    """One operation: the values it reads and produces, attributes as Python values, and regions."""

    name: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    types: tuple[Type, ...]
    attributes: Mapping[str, Any]
    regions: tuple[Region, ...]
    line: str

    def get(self, name: str, default: Any = None) -> Any:
        """Return the attribute `name`, or `default`."""
        return self.attributes.get(name, default)

    @property
    def short(self) -> str:
        """The name without its dialect."""
        return self.name.partition(".")[2]

    @property
    def where(self) -> str:
        """The description of this operation in error messages."""
        return f"{self.name}{f' ({self.line})' if self.line else ''}"


@dataclass(frozen=True)
class Region:
    """Operations over arguments; `results` are the values that its last operation returns."""

    arguments: tuple[int, ...]
    operations: tuple[Operation, ...]
    results: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of operations, in all regions together."""
        return sum(1 + sum(r.size for r in o.regions) for o in self.operations)


@dataclass(frozen=True)
class ManualSharding:
    """A sharding of Shardy: the name of its mesh, and the axes of each dimension; parts of axes as `axis:(k)n`."""

    mesh: str
    dims: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Port:
    """An argument or a result of a function: its type, and the attributes that the module gives it."""

    type: Type
    attributes: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""


@dataclass(frozen=True)
class Function:
    """A function of the module."""

    name: str
    arguments: tuple[Port, ...]
    results: tuple[Port, ...]
    body: Region


@dataclass(frozen=True)
class Module:
    """Functions by name; `main` is the one that is the program.

    `meshes` are those whose devices are in order: the sizes of their axes, the last one fastest.
    """

    name: str
    functions: Mapping[str, Function]
    main: str
    meshes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
