"""`tapestry objectives`: the objectives by which plans are evaluated."""

from __future__ import annotations

from argparse import Namespace

from tapestry.costmodel.known_objectives import KnownObjectives
from tapestry.service.cli.errors import OK
from tapestry.service.cli.output import print_json, print_table


def run(arguments: Namespace) -> int:
    """List each objective with its unit and description, those of plug-ins too; in JSON with its expression."""
    known = KnownObjectives()
    if arguments.json:
        print_json(
            {
                "objectives": [
                    {
                        "name": o.name,
                        "unit": o.unit,
                        "direction": o.direction,
                        "description": o.description,
                        "expression": o.expression,
                        "needs": list(known.figures(o)),
                    }
                    for o in known.by_name.values()
                ]
            }
        )
        return OK
    rows = [(o.name, o.unit, o.description) for o in known.by_name.values()]
    print_table(("objective", "unit", "what it is"), rows)
    return OK
