"""`tapestry objectives`: the objectives by which plans are evaluated."""

from __future__ import annotations

from argparse import Namespace

from tapestry.costmodel.known_objectives import KnownObjectives
from tapestry.service.cli.errors import OK
from tapestry.service.cli.output import print_json, print_table


def run(arguments: Namespace) -> int:
    """List name, unit and formula of each objective, those of plug-ins too."""
    known = KnownObjectives()
    if arguments.json:
        print_json(
            {
                "objectives": [
                    {
                        "name": o.name,
                        "unit": o.unit,
                        "direction": o.direction,
                        "formula": o.formula,
                        "form": o.form,
                        "needs": list(known.figures(o)),
                    }
                    for o in known.by_name.values()
                ]
            }
        )
        return OK
    rows = [(o.name, o.unit, o.formula) for o in known.by_name.values()]
    print_table(("objective", "unit", "what it is"), rows)
    return OK
