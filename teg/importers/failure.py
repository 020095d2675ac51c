"""The one error of importers."""

from __future__ import annotations


class ImportFailure(ValueError):  # noqa: N818 - a user reads the name; it is part of the interface
    """A program cannot be imported: the message is one line for the user, naming what and where."""
