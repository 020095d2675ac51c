"""The limits on what an import computes ahead, counted in elements that are read and written."""

from __future__ import annotations

# One step computed ahead reads and writes at most so many elements, and all of a program so many together ...
LARGEST_STEP, LARGEST_PROGRAM = 2**22, 2**25
# ... and so many more for each node of the program and for each element that its file holds.
PER_NODE, PER_STORED = 2**13, 4


class FoldBudget:
    """A count of the elements that may still be read and written to compute known values at import.

    Values beyond it are left to the program: they become blocks, or are refused where the import must know them.
    """

    def __init__(self, nodes: int = 0, stored: int = 0) -> None:
        self.limit = LARGEST_PROGRAM + PER_NODE * nodes + PER_STORED * stored
        self.spent = 0
        self.is_exceeded = False

    def take(self, elements: int) -> bool:
        """Return whether a step that touches so many elements may be computed; count them if it may."""
        if elements > LARGEST_STEP or self.spent + elements > self.limit:
            self.is_exceeded = True
            return False
        self.spent += elements
        return True

    def add_node(self) -> None:
        """Allow what one more node of the program may take."""
        self.limit += PER_NODE

    @property
    def reason(self) -> str:
        """The clause of a message that says that a limit was met; empty if none was."""
        if not self.is_exceeded:
            return ""
        return (
            f"; an import computes at most {LARGEST_STEP:,} elements for one node ahead and "
            f"{self.limit:,} in all, and this program has more"
        )
