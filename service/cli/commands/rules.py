"""`tapestry rules`: the rules that change programs and placements."""

from __future__ import annotations

from argparse import Namespace

from tapestry.service.cli.errors import OK
from tapestry.service.cli.output import print_json, print_table
from tapestry.service.rules import rules


def run(arguments: Namespace) -> int:
    """List structural rules, then placement rules."""
    found = rules()
    if arguments.json:
        print_json({"rules": found})
        return OK
    print_table(
        ("rule", "family", "kind", "holds", "what changes"),
        [(rule["name"], rule["family"], rule["kind"], rule["domain"], rule["summary"]) for rule in found],
    )
    return OK
