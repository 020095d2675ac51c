"""The common form of all PyTorch programs: inputs with roles, calls in order, outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.program import Value


@dataclass(frozen=True)
class Ref:
    """An argument that is the value of an input or of an earlier call."""

    name: str


class Extent(NamedTuple):
    """The elements of a stored tensor: the storage's name, the first one, the one after the last, and strides."""

    storage: str
    start: int
    end: int
    strides: tuple[int, ...]

    def overlaps(self, other: Extent) -> bool:
        """Return whether two tensors may have a stored element in common."""
        return self.storage == other.storage and self.start < other.end and other.start < self.end


@dataclass(frozen=True)
class Input:
    """A tensor from outside: `value` is named as in the user's program, `ref` as in the calls.

    `extent` is where its elements are stored, if that is recorded.
    """

    ref: str
    value: Value
    role: str
    data: np.ndarray | None = None
    extent: Extent | None = None


@dataclass(frozen=True)
class TorchCall:
    """One application of an operator: `target` as in `aten.add.Tensor`, arguments by position and by name.

    `outputs` are the recorded shapes and types of its results, None where a result is no tensor. `strides` are those
    of the results, where they are recorded.
    """

    name: str
    target: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    outputs: tuple[Value | None, ...]
    strides: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """The description of this call in error messages."""
        return f"node {self.name!r} ({self.target})"


@dataclass(frozen=True)
class TorchOutput:
    """An observed value; `carries` names the input whose next value it is."""

    name: str
    ref: str
    carries: str | None = None


@dataclass(frozen=True)
class Listing:
    """A whole program.

    `carries` is None where the outputs themselves state what they carry; else it is what the user specified for outputs
    (output -> input), or empty: then it is recognized by dataflow. `signed` says that the program has a
    signature, so that outputs which are gradients say so; `idle` are inputs that nothing reads, left out.
    """

    name: str
    inputs: tuple[Input, ...]
    calls: tuple[TorchCall, ...]
    outputs: tuple[TorchOutput, ...]
    carries: Mapping[str, str] | None = None
    signed: bool = True
    idle: frozenset[str] = frozenset()


# By the number that torch's serialized form gives them, and by name.
BY_CODE = {
    1: "uint8",
    2: "int8",
    3: "int16",
    4: "int32",
    5: "int64",
    6: "float16",
    7: "float32",
    8: "float64",
    10: "complex64",
    11: "complex128",
    12: "bool",
    13: "bfloat16",
    28: "uint16",
    29: "float8_e4m3fn",
    30: "float8_e5m2",
    34: "uint32",
    35: "uint64",
}


def dtype_by_code(code: Any, where: str) -> str:
    """Return the element type that torch's serialized form calls `code`.

    Raises:
        ImportFailure: the element type is unsupported.
    """
    if code not in BY_CODE:
        raise ImportFailure(
            f"{where} has unsupported element type number {code!r} (known are {sorted(BY_CODE)})"
        )
    return BY_CODE[code]


def dtype_by_name(text: Any, where: str) -> str:
    """Return the element type that torch prints as `text`, `torch.float32` for example.

    Raises:
        ImportFailure: the element type is unsupported.
    """
    name = str(text).removeprefix("torch.")
    if name not in BY_CODE.values():
        raise ImportFailure(f"{where} has unsupported element type {text!s}")
    return name


def made_unique(inputs: Sequence[Input]) -> tuple[tuple[Input, ...], dict[str, str]]:
    """Rename inputs to be distinct; return them, and the new names of all inputs but activations by their old ones.

    The user's arguments keep their names; a parameter with the same name gets the name that the calls use.
    """
    taken = {i.value.name for i in inputs if i.role == "activation"}
    apart, names = [], {}
    for given in inputs:
        if given.role != "activation":
            name = given.ref if given.value.name in taken else given.value.name
            names[given.value.name] = name
            taken.add(name)
            apart.append(replace(given, value=replace(given.value, name=name)))
        else:
            apart.append(given)
    return tuple(apart), names


def unique_outputs(found: Sequence[tuple[str, str, str | None]], taken: set[str]) -> tuple[TorchOutput, ...]:
    """Build the outputs `(name, ref, carries)` with names that neither inputs nor each other have."""
    used, outputs = set(taken), []
    for wanted, ref, carries in found:
        name, count = wanted, 1
        while name in used:
            count += 1
            name = f"{wanted}.{count}"
        used.add(name)
        outputs.append(TorchOutput(name, ref, carries))
    return tuple(outputs)
