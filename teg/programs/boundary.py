"""The boundary of a program: inputs, observed outputs, and values that are carried over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tapestry.teg.dtypes import NAMES
from tapestry.teg.graph import ROLES
from tapestry.teg.importers.program import Entry
from tapestry.teg.loading import LoadCost
from tapestry.teg.printable import is_printable
from tapestry.teg.programs.base import check_name, read_dims
from tapestry.teg.programs.failure import ProgramError
from tapestry.teg.programs.generators import Generators
from tapestry.teg.programs.handle import Handle


class Boundary(Generators):
    """Methods of a program that create sources and sinks."""

    def input(
        self, name: str, /, *shape: Any, dtype: str = "float32", load: LoadCost | None = None, **dims: int
    ) -> Handle:
        """Declare a value of each execution: `p.input("x", batch=32, features=128)` or `p.input("x", 32, 128)`.

        `load` is what it takes to bring it to the devices.
        """
        return self._entry(name, shape, dims, dtype, "activation", None, load)

    def parameter(
        self,
        name: str,
        /,
        *shape: Any,
        dtype: str | None = None,
        role: str = "parameter",
        value: np.ndarray | None = None,
        load: LoadCost | None = None,
        **dims: int,
    ) -> Handle:
        """Declare a value that stays from execution to execution, such as a weight; `value` is its data, if known.

        Without `dtype` it has that of `value`, or float32; without dimensions those of `value`.

        `role` is parameter, buffer, constant or optimizer_state; `load` is what it takes to bring it to the devices.
        """
        return self._entry(name, shape, dims, dtype, role, value, load)

    def constant(self, name: str, value: Any, /, *names: str) -> Handle:
        """Declare a known value; `names` name its dimensions."""
        array = np.asarray(value)
        if names and len(names) != array.ndim:
            raise ProgramError(f"an array of rank {array.ndim} has that many dimension names, not {names}")
        found = tuple(check_name(n) for n in names) or ("",) * array.ndim
        return self._declared(name, array.shape, found, array.dtype.name, "constant", array)

    def _entry(
        self,
        name: str,
        shape: Sequence[Any],
        dims: Mapping[str, int],
        dtype: str | None,
        role: str,
        value: np.ndarray | None,
        load: LoadCost | None,
    ) -> Handle:
        sizes, names = read_dims(shape, dims)
        array = None if value is None else np.asarray(value)
        dtype = dtype or ("float32" if array is None else array.dtype.name)
        if array is not None and not shape and not dims:
            sizes, names = array.shape, ("",) * array.ndim
        if array is not None and (array.shape != sizes or array.dtype.name != dtype):
            raise ProgramError(
                f"the value of {name!r} must have shape {sizes} and type {dtype}, "
                f"not {array.shape} and {array.dtype.name}"
            )
        return self._declared(name, sizes, names, dtype, role, array, load)

    def _declared(
        self,
        name: str,
        sizes: Sequence[int],
        names: Sequence[str],
        dtype: str,
        role: str,
        array: np.ndarray | None,
        load: LoadCost | None = None,
    ) -> Handle:
        if dtype not in NAMES:
            raise ProgramError(f"there is no element type {dtype!r}; known are {', '.join(NAMES)}")
        if role not in ROLES:
            raise ProgramError(f"a role is one of {', '.join(ROLES)}, not {role!r}")
        if name in self.writer.program.outputs:
            raise ProgramError(f"an output is called {name!r}; give the source another name")
        site = self.writer.own_site(name)
        value = self.writer.declare(site, sizes, dtype, names)
        self.writer.enter(site, Entry(value, role, array, load))
        return Handle(self.writer, value, tuple(names))

    def output(self, name: str, tensor: Handle, /) -> None:
        """Make `tensor` an output called `name`; what no output needs is left out of the graph."""
        self._own(tensor)
        if name in self.writer.program.outputs:
            raise ProgramError(f"there is an output {name!r} already")
        if name in self.writer.program.entries:
            raise ProgramError(f"an input or parameter is called {name!r}; give the output another name")
        if not name or not is_printable(name):
            raise ProgramError(f"a name is printable text, not {name!r}")
        self.writer.program.outputs[name] = tensor.value.name

    def update(self, old: Handle, new: Handle, /) -> None:
        """Make `new` the value of the parameter or state `old` in the next execution.

        Raises:
            ProgramError: `old` is no source of the program, or shape or type differ.
        """
        self._own(old)
        self._own(new)
        entries, program = self.writer.program.entries, self.writer.program
        if old.value.name not in entries or entries[old.value.name].role == "activation":
            raise ProgramError(f"{old!r} is no parameter or state, so it has no next value")
        if (old.shape, old.dtype) != (new.shape, new.dtype):
            raise ProgramError(f"the next value of {old!r} must have its shape and type, not {new!r}")
        if old.value.name in program.carries.values():
            raise ProgramError(f"{old!r} has a next value already")
        name = f"{old.value.name}.next"
        self.output(name, new)
        program.carries[name] = old.value.name

    def _own(self, tensor: Handle) -> None:
        if not isinstance(tensor, Handle):
            raise ProgramError(f"expected a tensor of the program, not {type(tensor).__name__}")
        if tensor.writer is not self.writer:
            raise ProgramError(f"{tensor!r} belongs to program {tensor.writer.program.name!r}")
