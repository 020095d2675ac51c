"""An interface for people to write programs: `tapestry.program()` and the handles that it gives."""

from tapestry.teg.programs.cell import Cell
from tapestry.teg.programs.failure import ProgramError
from tapestry.teg.programs.handle import Handle
from tapestry.teg.programs.program import Program, program

__all__ = ["Cell", "Handle", "Program", "ProgramError", "program"]
