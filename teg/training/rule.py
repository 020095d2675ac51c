"""Rules of differentiation, as functions: gradients of a block's outputs become those of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tapestry.teg.graph import Block
from tapestry.teg.training.writing import GradientWriter


class NotDifferentiable(ValueError):
    """Error raised for a program that has no gradients; the message names the block that has none."""


@dataclass(frozen=True)
class BlockGradients:
    """A block whose inputs need gradients: those that are `wanted`, from `gradients` of its outputs.

    A gradient is a tensor of the shape and element type of what it belongs to; None where it is zero everywhere. Those
    of complex numbers are `dL/dRe + i dL/dIm`, as PyTorch has them.
    """

    writer: GradientWriter
    block: Block
    gradients: tuple[str | None, ...]
    wanted: tuple[bool, ...]

    @property
    def gradient(self) -> str:
        """The gradient of the only output."""
        (found,) = self.gradients
        assert found is not None
        return found

    @property
    def output(self) -> str:
        """The only output."""
        (found,) = self.block.outputs
        return found

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tensors that the block reads."""
        return self.block.inputs

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute of the block, or a default."""
        return self.block.definition.get(name, default)


Rule = Callable[[BlockGradients], Sequence[str | None]]
"""A rule writes the gradients of the wanted inputs, and returns one entry per input, None where it is zero.

It raises `NotDifferentiable`, with the reason alone, for a block that it does not cover.
"""
