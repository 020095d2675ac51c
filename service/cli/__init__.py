"""The command line: `tapestry COMMAND`."""

from tapestry.service.cli.entry import main

__all__ = ["main"]
