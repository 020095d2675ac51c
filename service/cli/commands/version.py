"""`tapestry version`: the versions of Tapestry and of the packages it builds on."""

from __future__ import annotations

from argparse import Namespace

from tapestry.service.cli.errors import OK
from tapestry.service.cli.output import print_json, print_table
from tapestry.service.provenance import versions


def run(arguments: Namespace) -> int:
    """Print the versions."""
    found = versions()
    if arguments.json:
        print_json(found)
    else:
        print_table(("package", "version"), list(found.items()))
    return OK
