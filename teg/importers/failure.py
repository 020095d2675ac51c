"""The error of importers, and its stronger form."""

from __future__ import annotations


class ImportFailure(ValueError):
    """A program cannot be imported: the message is one line for the user, naming what and where."""


class WrongProgramError(ImportFailure):
    """The program is wrong, so that nobody could compute it: no fixed block takes the place of what was refused."""
