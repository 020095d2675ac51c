"""The command line: `tapestry COMMAND`."""

from service.cli.entry import main

__all__ = ["main"]
