"""Readers of operators' attributes and inputs: every error says what was expected and what came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tapestry.teg.dtypes import NAMES
from tapestry.teg.graph import Attributes, TensorType
from tapestry.teg.signature import PARALLEL, IndexDim, Row


def settings(attrs: Attributes, required: Sequence[str], optional: Sequence[str] = ()) -> Mapping[str, Any]:
    """Return the attributes by name.

    Raises:
        ValueError: a required one is missing, or one is unknown.
    """
    found = dict(attrs)
    missing = [name for name in required if name not in found]
    unknown = [name for name in found if name not in required and name not in optional]
    if missing or unknown:
        known = ", ".join([*required, *(f"{name} (optional)" for name in optional)]) or "none"
        wrong = [f"lacks {name!r}" for name in missing] + [f"does not know {name!r}" for name in unknown]
        raise ValueError(f"the operator {' and '.join(wrong)}; its attributes are: {known}")
    return found


def expect_inputs(inputs: Sequence[TensorType], names: Sequence[str], least: int | None = None) -> None:
    """Check the number of inputs: those called `names`, of which the first `least` must be there.

    Raises:
        ValueError: there are too few or too many.
    """
    low = len(names) if least is None else least
    if not low <= len(inputs) <= len(names):
        count = f"{low}" if low == len(names) else f"{low} to {len(names)}"
        listed = f" ({', '.join(names)})" if names else ""
        raise ValueError(f"expected {count} inputs{listed}, not {len(inputs)}")


def integers(value: Any, name: str, length: int | None = None, least: int | None = None) -> tuple[int, ...]:
    """Check that a value is a tuple of integers, of this `length` and none below `least`, and return it.

    Raises:
        ValueError: it is something else.
    """
    good = isinstance(value, tuple) and all(isinstance(v, int) and not isinstance(v, bool) for v in value)
    if not good or (length is not None and len(value) != length):
        count = "integers" if length is None else f"{length} integers"
        raise ValueError(f"attribute {name!r} must be a tuple of {count}, not {value!r}")
    if least is not None and any(v < least for v in value):
        raise ValueError(f"attribute {name!r} must hold numbers of at least {least}, not {value}")
    return tuple(value)


def known_dtype(value: Any) -> str:
    """Return an element type's name, if it is known.

    Raises:
        ValueError: there is none of this name.
    """
    if value not in NAMES:
        raise ValueError(f"unknown element type {value!r}; known are {', '.join(NAMES)}")
    return str(value)


def canonical_axis(axis: Any, rank: int) -> int:
    """Return an axis counted from the front: equal blocks have equal attributes.

    Raises:
        ValueError: it is negative, or outside a tensor of this rank.
    """
    if not isinstance(axis, int) or isinstance(axis, bool) or not 0 <= axis < rank:
        raise ValueError(f"an axis of a tensor of rank {rank} is a number from 0 to {rank - 1}, not {axis!r}")
    return axis


def dim_names(rank: int) -> tuple[str, ...]:
    """Return the names of index dimensions that have none of their own: `d0`, `d1`, ..."""
    return tuple(f"d{k}" for k in range(rank))


def axiswise(shape: Sequence[int], whole: Sequence[int] = ()) -> tuple[tuple[IndexDim, ...], tuple[Row, ...]]:
    """Build parallel index dimensions for all tensor dimensions but those in `whole`, and the tensor's rows."""
    names = dim_names(len(shape))
    split = [k for k in range(len(shape)) if k not in whole]
    dims = tuple(IndexDim(names[k], shape[k], PARALLEL) for k in split)
    rows = tuple(
        Row(split.index(k), 1, 0, 1) if k in split else Row(-1, 0, 0, size) for k, size in enumerate(shape)
    )
    return dims, rows
