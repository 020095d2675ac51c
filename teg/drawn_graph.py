"""Attributes of blocks, tensors and graphs that drawings read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class BlockLike(Protocol):
    """The attributes of a block that a picture reads."""

    @property
    def site(self) -> str: ...
    @property
    def operator(self) -> str: ...
    @property
    def definition(self) -> Any: ...
    @property
    def inputs(self) -> tuple[str, ...]: ...
    @property
    def outputs(self) -> tuple[str, ...]: ...
    @property
    def index(self) -> Any: ...
    @property
    def device(self) -> int | None: ...
    @property
    def after(self) -> tuple[str, ...]: ...


class TensorLike(Protocol):
    """The attributes of a tensor that a picture reads."""

    @property
    def dtype(self) -> str: ...
    @property
    def dims_text(self) -> str: ...


class GraphLike(Protocol):
    """The attributes of a graph that a drawing reads."""

    @property
    def name(self) -> str: ...
    @property
    def blocks(self) -> Sequence[BlockLike]: ...
    @property
    def tensors(self) -> Mapping[str, Any]: ...
    @property
    def producers(self) -> Mapping[str, BlockLike]: ...
