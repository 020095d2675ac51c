"""`tapestry objectives`: the objectives by which plans are evaluated."""

from __future__ import annotations

from argparse import Namespace

from tapestry.costmodel.objectives import OBJECTIVES
from tapestry.service.cli.errors import OK
from tapestry.service.cli.output import print_json, print_table


def run(arguments: Namespace) -> int:
    """List name, unit and formula of each objective."""
    if arguments.json:
        print_json(
            {
                "objectives": [
                    {
                        "name": o.name,
                        "unit": o.unit,
                        "direction": o.direction,
                        "formula": o.formula,
                        "needs": list(o.figures),
                    }
                    for o in OBJECTIVES
                ]
            }
        )
        return OK
    print_table(("objective", "unit", "what it is"), [(o.name, o.unit, o.formula) for o in OBJECTIVES])
    return OK
