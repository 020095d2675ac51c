"""`tapestry rules`: how programs and placements may be changed."""

from __future__ import annotations

from argparse import Namespace

from rewrites import PLACEMENT, catalogue
from service.cli.errors import OK
from service.cli.output import print_json, print_table


def run(arguments: Namespace) -> int:
    """List structural rules, then placement rules."""
    rules = [
        {
            "name": rule.name,
            "kind": rule.kind,
            "domain": rule.domain,
            "summary": rule.doc.partition("\n")[0],
            "doc": rule.doc,
            "source": rule.source,
        }
        for rule in catalogue().values()
    ]
    rules += [
        {
            "name": rule.name,
            "kind": "placement",
            "domain": "exact",
            "summary": rule.doc.partition("\n")[0],
            "doc": rule.doc,
            "source": rule.source,
        }
        for rule in PLACEMENT
    ]
    if arguments.json:
        print_json({"rules": rules})
        return OK
    print_table(
        ("rule", "kind", "holds", "what changes"),
        [(rule["name"], rule["kind"], rule["domain"], rule["summary"]) for rule in rules],
    )
    return OK
