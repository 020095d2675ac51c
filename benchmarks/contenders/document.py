"""The document of the benchmark: instances with their cells, kept in a file after every cell."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contenders.cells import front_of
from benchmarks.contenders.fronts import BEYOND_NADIR, MOST_POINTS, box_of
from benchmarks.setting import write
from tapestry.costmodel.version import COST_MODEL_VERSION
from tapestry.optimizer.run.options import DEFAULT_OBJECTIVES

# What figures depend on; a file with others cannot be continued.
SETTINGS: Mapping[str, Any] = {
    "benchmark": "search",
    "cost_model": COST_MODEL_VERSION,
    "objectives": list(DEFAULT_OBJECTIVES),
    "points": MOST_POINTS,
    "beyond_nadir": BEYOND_NADIR,
}
INSTEAD = "name another file, or move it away to begin anew"


class ContinuationError(Exception):
    """Error raised for a file that cannot be continued, with what to do instead."""


class Document:
    """The figures so far, and the file that takes them up; without one they are kept here only."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.instances: list[dict[str, Any]] = []
        self.left_out: list[dict[str, str]] = []
        if path is not None and path.exists():
            self.instances = _read(path)
            for instance in self.instances:
                measure(instance)

    def instance(self, graph: str, mesh: str, program: str) -> dict[str, Any]:
        """Return the entry of an instance, a new one if there is none.

        Raises:
            ContinuationError: the file has figures of another program of this name.
        """
        for known in self.instances:
            if (known["graph"], known["mesh"]) == (graph, mesh):
                if known["program"] != program:
                    raise ContinuationError(
                        f"{self.path} has figures of another program called {graph!r}: rename one, or {INSTEAD}"
                    )
                return known
        self.instances.append({"graph": graph, "mesh": mesh, "program": program, "contenders": []})
        return self.instances[-1]

    def add(self, instance: dict[str, Any], found: dict[str, Any]) -> None:
        """Add a cell, in the place of an older one, and compute all shares of the box again."""
        others = [
            c for c in instance["contenders"] if (c["name"], c["seed"]) != (found["name"], found["seed"])
        ]
        instance["contenders"] = [*others, found]
        measure(instance)

    def write(self, path: Path | None = None, has_fronts: bool = True) -> None:
        """Write the file, or the figures without fronts to another."""
        instances = self.instances if has_fronts else [without_fronts(i) for i in self.instances]
        write(path or self.path, {**SETTINGS, "left_out": self.left_out, "instances": instances}, _text)


def is_done(instance: Mapping[str, Any], name: str, seed: int, seconds: list[float]) -> bool:
    """Return whether an instance has this cell, with a checkpoint at each of the seconds."""
    return any(
        (c["name"], c["seed"]) == (name, seed) and set(seconds) <= {p["cpu_s"] for p in c["checkpoints"]}
        for c in instance["contenders"]
    )


def seconds_with(instance: Mapping[str, Any], name: str, seed: int, seconds: list[float]) -> list[float]:
    """Return the seconds at which a cell is measured again: those given, and those that an older one had."""
    older = (
        p["cpu_s"]
        for c in instance["contenders"]
        if (c["name"], c["seed"]) == (name, seed)
        for p in c["checkpoints"]
    )
    return sorted({*seconds, *older})


def measure(instance: dict[str, Any]) -> None:
    """Compute the box of an instance's fronts, and the share of it that each of them, and all together, dominate."""
    found = list(_checkpoints(instance))
    fronts = [front for front in map(front_of, found) if len(front)]
    box = box_of(fronts)
    if box is None:
        return
    instance["box"] = {"least": box.least.tolist(), "most": box.most.tolist()}
    instance["union"] = round(box.share(np.concatenate(fronts)), 6)
    for each in found:
        each["hypervolume"] = round(box.share(front_of(each)), 6)


def without_fronts(instance: Mapping[str, Any]) -> dict[str, Any]:
    """Return an instance without the fronts of its checkpoints."""
    contenders = [
        {**c, "checkpoints": [{k: v for k, v in p.items() if k != "front"} for p in c["checkpoints"]]}
        for c in instance["contenders"]
    ]
    return {**instance, "contenders": contenders}


def _checkpoints(instance: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for contender in instance["contenders"]:
        yield from contender["checkpoints"]


def _read(path: Path) -> list[dict[str, Any]]:
    """Read the instances of a file to be continued.

    Raises:
        ContinuationError: the file is damaged, of another benchmark or cost model, or has no fronts.
    """
    try:
        document = json.loads(path.read_text())
        other = [name for name, value in SETTINGS.items() if document.get(name) != value]
        instances: list[dict[str, Any]] = document["instances"] if not other else []
        fronts = [front_of(p) for i in instances for p in _checkpoints(i) if i["program"] and "front" in p]
        count = sum(1 for i in instances for _ in _checkpoints(i))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ContinuationError(
            f"{path} cannot be continued ({error or type(error).__name__}): {INSTEAD}"
        ) from error
    if other:
        raise ContinuationError(f"{path} has figures with another {', '.join(other)}: {INSTEAD}")
    if len(fronts) < count:
        raise ContinuationError(
            f"{path} has no fronts, as --figures writes it: name the file of --json instead"
        )
    return instances


def _text(document: Mapping[str, Any]) -> str:
    """Format a document with one line per cell."""
    instances = [_instance_text(instance) for instance in document["instances"]]
    head = "".join(
        f"{json.dumps(name)}: {json.dumps(value)},\n"
        for name, value in document.items()
        if name != "instances"
    )
    return f'{{{head}"instances": [{_lines(instances)}]}}\n'


def _instance_text(instance: Mapping[str, Any]) -> str:
    head = "".join(
        f"{json.dumps(name)}: {json.dumps(value)}, "
        for name, value in instance.items()
        if name != "contenders"
    )
    return f'{{{head}"contenders": [{_lines(list(map(json.dumps, instance["contenders"])))}]}}'


def _lines(parts: list[str]) -> str:
    return "".join(f"\n{part}{',' if k < len(parts) - 1 else ''}" for k, part in enumerate(parts))
