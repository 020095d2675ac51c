"""Rows chosen by tensors of positions."""

from __future__ import annotations

from typing import Self

from teg.programs.base import Dim, TensorBase, check_name, labels_for
from teg.programs.elementwise import Elementwise
from teg.programs.failure import ProgramError
from teg.programs.movement import Movement


class Gathering(Movement, Elementwise):
    """Methods that choose elements by position."""

    def gather(self, index: TensorBase, dim: Dim = 0) -> Self:
        """The slices along `dim` at the positions `index`, whose dimensions take the place of `dim`."""
        axis = self.axis(dim)
        if index.dtype not in ("int32", "int64"):
            raise ProgramError(f"positions are int32 or int64, not {index.dtype}; cast them")
        if index.writer is not self.writer:
            raise ProgramError(f"{index!r} belongs to program {index.writer.program.name!r}")
        names = (*self.names[:axis], *index.names, *self.names[axis + 1 :])
        twice = sorted({n for n in names if n and names.count(n) > 1})
        if twice:
            raise ProgramError(f"two dimensions of the result would be called {twice[0]!r}; rename one")
        target = labels_for(names)
        rows = target[axis : axis + index.rank]
        table = (*target[:axis], "entries", *target[axis + index.rank :])
        shape = (*self.shape[:axis], *index.shape, *self.shape[axis + 1 :])
        return self.compute(
            "gather",
            "gather",
            (shape, names),
            {"axis": "entries"},
            others=[index],
            labels=[table, rows],
            target=target,
            whole=frozenset({"entries"}),
        )

    def one_hot(self, size: int, name: str = "", dtype: str = "float32") -> Self:
        """1 at each position along a new last dimension of `size`, 0 elsewhere."""
        if not self.dtype.startswith(("int", "uint")):
            raise ProgramError(f"one_hot needs whole numbers, not {self.dtype}")
        names = (*self.names, check_name(name))
        target = labels_for(names)
        hit = ("eq", ("input", 0), ("index", target[-1]))
        attributes = {"expr": ("cast", dtype, hit), "dtype": dtype}
        shape = (*self.shape, size)
        labels = [target[:-1]]
        return self.compute(
            "one_hot", "cell", (shape, names), attributes, labels=labels, target=target, dtype=dtype
        )
