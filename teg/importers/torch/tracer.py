"""The builder of torch's calls: what the program records of their results, and what is written in place."""

from __future__ import annotations

from tapestry.teg.importers.program import Value
from tapestry.teg.importers.torch.listing import Call
from tapestry.teg.importers.translate.builder import Builder
from tapestry.teg.importers.translate.stepwise import FoldingTranslation

Number = (bool, int, float, complex)


class Tracer(Builder):
    """Emits the steps of one call after the other; `call` is the one being translated."""

    def __init__(self, translation: FoldingTranslation) -> None:
        super().__init__(translation)
        self.call = Call("", "", (), {}, ())
        # Values that a call overwrote, by name, and what they are now.
        self.replaced: dict[str, Value] = {}
        # Values that torch does not store row-major and by themselves.
        self.scattered: set[str] = set()

    def begin(self, call: Call) -> None:
        """Steps from here on belong to `call`."""
        self.call = call
        self.enter(call.name, call.where)

    @property
    def dtype(self) -> str:
        """The element type that the program records of the call's first result."""
        return self.recorded(0).dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape that the program records of the call's first result."""
        return self.recorded(0).shape

    def recorded(self, position: int) -> Value:
        """What the program records of one of the call's results."""
        found = self.call.outputs[position] if position < len(self.call.outputs) else None
        if found is None:
            raise self.refuse(f"records no shape and element type of result {position}")
        return found

    def replace(self, old: Value, new: Value) -> None:
        """From the next call on, whoever reads `old` reads `new`: the call writes it in place."""
        self.replaced[old.name] = new

    def is_row_major(self, value: Value) -> bool:
        """Whether torch stores the value row-major and by itself, as far as the program tells."""
        return value.name not in self.scattered
