"""The one error of importers."""

from __future__ import annotations


class ImportFailure(ValueError):
    """A program cannot be imported: the message is one line for the user, naming what and where."""
