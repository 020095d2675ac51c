"""A way for people to write programs: `teg.program()` and the handles that it gives."""

from teg.programs.cell import Cell
from teg.programs.failure import ProgramError
from teg.programs.handle import Handle
from teg.programs.program import Program, program

__all__ = ["Cell", "Handle", "Program", "ProgramError", "program"]
