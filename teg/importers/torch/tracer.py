"""The builder for torch's calls: the recorded types of their results, and the values that are written in place."""

from __future__ import annotations

from tapestry.teg.importers.program import Value
from tapestry.teg.importers.torch.listing import TorchCall
from tapestry.teg.importers.translate.builder import Builder
from tapestry.teg.importers.translate.constant_folding import FoldingTranslation

Number = (bool, int, float, complex)


class Tracer(Builder):
    """A builder of the steps of one call after the other; `call` is the one being translated."""

    def __init__(self, translation: FoldingTranslation) -> None:
        super().__init__(translation)
        self.call = TorchCall("", "", (), {}, ())
        # What the operands that the call overwrites are now, by their names in the translation.
        self.replaced: dict[str, Value] = {}
        # Values that torch does not store row-major and by themselves.
        self.scattered: set[str] = set()

    def begin(self, call: TorchCall) -> None:
        """Start emitting steps that belong to `call`."""
        self.call = call
        self.enter(call.name, call.where)

    @property
    def dtype(self) -> str:
        """The element type that the program records for the call's first result."""
        return self.recorded(0).dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape that the program records for the call's first result."""
        return self.recorded(0).shape

    def recorded(self, position: int) -> Value:
        """Return the shape and element type that the program records for one of the call's results."""
        found = self.call.outputs[position] if position < len(self.call.outputs) else None
        if found is None:
            raise self.refuse(f"records no shape and element type of result {position}")
        return found

    def replace(self, operand: str, new: Value) -> None:
        """Replace a named operand by `new` for all reads from the next call on: the call writes it in place."""
        self.replaced[operand] = new

    def is_row_major(self, value: Value) -> bool:
        """Return whether torch stores the value row-major and by itself, as far as the program shows."""
        return value.name not in self.scattered
