"""Values of tensors as the store holds them, and where a tensor with a name lies."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np

from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.loading import LoadCost


@dataclass(frozen=True)
class TensorValue:
    """The value of a tensor: element type by name, shape, and the elements row by row as little-endian bytes."""

    dtype: str
    shape: tuple[int, ...]
    content: bytes = field(repr=False)

    @classmethod
    def of(cls, array: np.ndarray) -> TensorValue:
        return cls(array.dtype.name, array.shape, array.tobytes())

    @property
    def array(self) -> np.ndarray:
        """The value as an array, read-only."""
        flat: np.ndarray = np.frombuffer(self.content, numpy_dtype(self.dtype))
        return flat.reshape(self.shape)

    @property
    def digest(self) -> str:
        """A hash of type, shape and elements."""
        return hashlib.sha256(f"{self.dtype}{list(self.shape)}".encode() + self.content).hexdigest()


@dataclass(frozen=True)
class TensorPlace:
    """The place of a tensor on a mesh: the mesh's name and hash, the part of it that works, and the sharding.

    `spec` and `layout` are those of the tensor in the factored `shape` in which the program had it.
    """

    mesh: str
    mesh_digest: str
    devices: str
    shape: tuple[int, ...]
    spec: str
    layout: str

    def to_json(self) -> dict[str, Any]:
        return {
            "mesh": self.mesh,
            "mesh_digest": self.mesh_digest,
            "devices": self.devices,
            "shape": list(self.shape),
            "spec": self.spec,
            "layout": self.layout,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> TensorPlace:
        return cls(**{**document, "shape": tuple(document["shape"])})


@dataclass(frozen=True)
class NamedTensor:
    """A stored tensor without its value; `place` is None for one that was loaded and lies on no mesh.

    `load` is what it then takes to bring it to one; None: no time.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    size_bytes: int
    digest: str
    place: TensorPlace | None
    stored_at: datetime
    load: LoadCost | None = None


@dataclass(frozen=True)
class TensorRequest:
    """The values of an execution: names of the inputs that were `given` with the request, inputs from stored tensors
    (`tensors`: input -> name), outputs to store (`save`: output -> name), and whether to keep all `outputs`.
    """

    given: Sequence[str] = ()
    tensors: Mapping[str, str] = field(default_factory=dict)
    save: Mapping[str, str] = field(default_factory=dict)
    outputs: bool = False

    @property
    def is_seeded(self) -> bool:
        """True if inputs and weights are drawn by a seed, as no value is given."""
        return not self.given and not self.tensors

    def to_json(self) -> dict[str, Any]:
        return {
            "given": sorted(self.given),
            "tensors": dict(self.tensors),
            "save": dict(self.save),
            "outputs": self.outputs,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any] | None) -> TensorRequest:
        return cls(**(document or {}))
