"""Arrays of variants as bytes: addressed by their content, read from a file or from the task, and kept by workers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tapestry.costmodel.kernel_arrays import CompiledSpace, EvaluationState, new_state
from tapestry.optimizer.placement.search_space import SearchSpace
from tapestry.optimizer.run.serialization import SerializationError, deserialize, serialize

MAGIC = b"tapestry variant 1\n"
MOST_LOADED_VARIANTS = 8
LARGEST_LOADED_BYTES = 1 << 30
# The parts of a variant, by the prefix of their names in the bytes.
PARTS: Mapping[str, type[CompiledSpace] | type[SearchSpace]] = {"space": CompiledSpace, "search": SearchSpace}


class VariantError(ValueError):
    """Error raised for bytes that are not the arrays of a variant, or not those that they are said to be."""


@dataclass(frozen=True)
class VariantArrays:
    """The name of a variant's arrays, which is a hash of their content, and where they are.

    They are in a file that the coordinator writes in its own private folder, for workers of this host, and in
    `content` where a worker said that it knows neither.
    """

    token: str
    path: str
    content: bytes = b""


@dataclass(frozen=True)
class UnknownVariant:
    """The answer of a worker that has never seen a variant's arrays, and cannot read their file: send the bytes."""

    token: str


class LoadedVariant(NamedTuple):
    """A variant as compiled code takes it: its two spaces, and the state of evaluations on it."""

    space: CompiledSpace
    search: SearchSpace
    state: EvaluationState

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays."""
        return sum(a.nbytes for part in self for a in part if isinstance(a, np.ndarray))


_loaded: OrderedDict[str, LoadedVariant] = OrderedDict()


def variant_bytes(space: CompiledSpace, search: SearchSpace) -> bytes:
    """Serialize a variant's arrays: a JSON header with names, types and shapes, then the arrays; equal ones alike."""
    numbers: dict[str, Any] = {}
    arrays: dict[str, np.ndarray] = {}
    for prefix, part in (("space", space), ("search", search)):
        for name, value in part._asdict().items():
            held = arrays if isinstance(value, np.ndarray) else numbers
            held[f"{prefix}.{name}"] = value
    return serialize(MAGIC, {"numbers": numbers}, arrays)


def parse_variant(content: bytes) -> tuple[CompiledSpace, SearchSpace]:
    """Deserialize what `variant_bytes` wrote.

    Raises:
        VariantError: the bytes are damaged, of another version, or no variant at all.
    """
    try:
        header, arrays = deserialize(MAGIC, content)
        fields = {**header["numbers"], **arrays}
        space, search = (
            kind(**{name: fields.pop(f"{prefix}.{name}") for name in kind._fields})
            for prefix, kind in PARTS.items()
        )
        if fields:
            raise VariantError(f"these {len(content)} bytes hold {sorted(fields)}, which no variant has")
    except (SerializationError, KeyError, TypeError) as error:
        raise VariantError(f"these {len(content)} bytes are no arrays of a variant: {error}") from error
    return space, search  # type: ignore[return-value]


def token_of(content: bytes) -> str:
    """Return the checksum that is part of the bytes of a variant: the name of their content."""
    return content[len(MAGIC) : len(MAGIC) + 32].hex()


def write_variant(folder: Path, space: CompiledSpace, search: SearchSpace) -> VariantArrays:
    """Write a variant's arrays to a file that worker processes on this host can read."""
    content = variant_bytes(space, search)
    token = token_of(content)
    path = folder / f"{token}.variant"
    path.write_bytes(content)
    return VariantArrays(token, str(path))


def with_content(variant: VariantArrays) -> VariantArrays:
    """Return the same variant with its bytes, for a worker that cannot read the file."""
    return replace(variant, content=Path(variant.path).read_bytes())


def load_variant(variant: VariantArrays) -> LoadedVariant | UnknownVariant:
    """Return a variant's arrays: those that this process keeps, else from their bytes, else from their file.

    The process keeps the variants that it used last, a few of them; compiled code may write to their state.

    Raises:
        VariantError: the bytes are damaged, or have another name.
    """
    if variant.token in _loaded:
        _loaded.move_to_end(variant.token)
        return _loaded[variant.token]
    try:
        content = variant.content or Path(variant.path).read_bytes()
    except OSError:
        return UnknownVariant(variant.token)
    if token_of(content) != variant.token:
        raise VariantError(f"the bytes are of variant {token_of(content)[:12]}, not {variant.token[:12]}")
    space, search = parse_variant(content)
    _loaded[variant.token] = LoadedVariant(space, search, new_state(space))
    _forget_oldest()
    return _loaded[variant.token]


def _forget_oldest() -> None:
    """Forget the variants that were used longest ago, until the others are few and small; the last one stays."""
    while len(_loaded) > 1 and (
        len(_loaded) > MOST_LOADED_VARIANTS
        or sum(loaded.nbytes for loaded in _loaded.values()) > LARGEST_LOADED_BYTES
    ):
        _loaded.popitem(last=False)
