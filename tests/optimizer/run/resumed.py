"""A fresh process that continues a search from a checkpoint, and prints the result."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tapestry.optimizer import Checkpoint, Result
from tests.costmodel.programs import GRAPHS
from tests.optimizer.searches import frontier, search


def reported(result: Result) -> list[Any]:
    """Return the parts of a result that must repeat, as plain values: all but the seconds."""
    history = [[p.evaluations, p.front, p.hypervolume, list(p.best), p.fraction] for p in result.history]
    rules = {name: list(counts) for name, counts in result.rules.items()}
    plans = [[name, cost] for name, cost in frontier(result)]
    return [plans, result.evaluations, result.stopped, history, rules]


def main(path: str, program: str, evaluations: str) -> None:
    saved = Checkpoint.from_bytes(Path(path).read_bytes())
    result = search(
        GRAPHS[program](),
        seed=saved.seed,
        islands=saved.islands,
        evaluations=int(evaluations),
        resume=saved,
    )
    sys.stdout.write(json.dumps(reported(result)))


if __name__ == "__main__":
    main(*sys.argv[1:])
