"""Results of pure functions on one mesh, kept by the value of their arguments.

Layers of a plan repeat, and plans of one frontier share most of their strategies: what is expanded, proven and counted
for one of them need not be found again for the next.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import numpy as np

from tapestry.teg.sharding.mesh_shape import MeshShape

T = TypeVar("T")
# The results times devices that are kept: at most some hundred megabytes of boxes.
LARGEST_CACHE = 2**19


class ResultCache:
    """Results by key, for one mesh; with more than `most` of them, all are dropped.

    A key begins with the name of what was computed, and has all arguments by value; arrays stand in it as `key_of` has
    them. A result that is an array is read-only. With `most=0` everything is computed whenever it is asked for.
    """

    def __init__(self, mesh_shape: MeshShape, most: int | None = None) -> None:
        self.mesh_shape = mesh_shape
        self.most = LARGEST_CACHE // mesh_shape.device_count if most is None else most
        self._found: dict[Hashable, Any] = {}
        self._numbers: dict[int, tuple[np.ndarray, int]] = {}
        self._count = 0

    def known(self, key: Hashable, find: Callable[[], T]) -> T:
        """Return the result for a key; `find` computes it the first time."""
        if key in self._found:
            found: T = self._found[key]
            return found
        result = find()
        if isinstance(result, np.ndarray):
            self.freeze(result)
        if self.most > 0:
            if len(self._found) >= self.most:
                self._found.clear()
                self._numbers.clear()
            self._found[key] = result
        return result

    def freeze(self, array: np.ndarray) -> np.ndarray:
        """Make an array of a result read-only, and give it a number that stands for its content in keys."""
        array.flags.writeable = False
        if self.most > 0:
            self._numbers[id(array)] = (array, self.next_number())
        return array

    def next_number(self) -> int:
        """Return a number that no result of this cache has."""
        self._count += 1
        return self._count

    def key_of(self, array: np.ndarray) -> Hashable:
        """Return what stands for an array in a key: its number if it is ours and unchanged, else its content."""
        numbered = self._numbers.get(id(array))
        if numbered is not None and numbered[0] is array and not array.flags.writeable:
            return numbered[1]
        return (array.shape, array.dtype.str, array.tobytes())
