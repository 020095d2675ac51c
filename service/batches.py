"""Batches of runs: models x meshes x sizes of dimensions x seeds, read from a document and expanded to entries.

Imported by the command line, which carries a batch out on this machine, and by the API, which queues its runs.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from tapestry.optimizer.run.options import AUTO, OPTIONS, RunOptions
from tapestry.teg.faults import Fault, near_hint, value_text

LISTS = ("models", "meshes", "seeds")
# Options that an entry of a batch has of its own, and what to write instead.
OF_AN_ENTRY = {
    "seed": "write seeds = [0, 1]",
    "start_from": 'a batch has many programs; write start_from = "auto", or use `tapestry optimize --start-from`',
    "pins": "a batch has many programs; use `tapestry optimize --pin`",
}
MOST_ENTRIES = 100_000


class BatchError(ValueError):
    """Error raised for a batch that cannot be read; `faults` name each place in it."""

    def __init__(self, *faults: Fault) -> None:
        self.faults = faults
        super().__init__("; ".join(f"{place_of(fault)}{fault.detail}" for fault in faults))


@dataclass(frozen=True)
class BatchEntry:
    """One run of a batch: `number` counts from 0, `place` says where the batch states its model and mesh."""

    number: int
    model: str
    mesh: str
    dimensions: Mapping[str, int]
    options: RunOptions
    place: str

    def __str__(self) -> str:
        sizes = "".join(f", {name}={size}" for name, size in self.dimensions.items())
        return f"{Path(self.model).name} on {Path(self.mesh).name}{sizes}, seed {self.options.seed}"


@dataclass(frozen=True)
class Batch:
    """A batch as it was asked for: the options are those of every run, but for the seed."""

    models: tuple[str, ...]
    meshes: tuple[str, ...]
    seeds: tuple[int, ...]
    dimensions: Mapping[str, tuple[int, ...]]
    options: RunOptions

    def entries(self) -> tuple[BatchEntry, ...]:
        """Return the runs, in the order of the batch: model by model, mesh by mesh, size by size, seed by seed."""
        sizes = [
            dict(zip(self.dimensions, chosen, strict=True)) for chosen in product(*self.dimensions.values())
        ]
        every = product(enumerate(self.models), enumerate(self.meshes), sizes, self.seeds)
        return tuple(
            BatchEntry(
                *(number, model, mesh, chosen, self.options.changed(seed=seed)),
                f"models[{m}] {model!r}, meshes[{n}] {mesh!r}",
            )
            for number, ((m, model), (n, mesh), chosen, seed) in enumerate(every)
        )


def place_of(fault: Fault) -> str:
    """Return where a fault is in a batch as its author wrote it, such as `seeds[1]: `; empty for the batch itself."""
    head, *rest = fault.pointer[1:].split("/")
    return (
        f"{head}{''.join(f'[{part}]' if part.isdecimal() else f'.{part}' for part in rest)}: " if head else ""
    )


def read_batch(path: str | Path) -> Batch:
    """Read a batch from a TOML file.

    Raises:
        BatchError: there is no such file, it is no TOML, or it holds no batch.
    """
    try:
        document = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise BatchError(Fault("", f"it cannot be read: {error.strerror or error}")) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BatchError(Fault("", f"it is no TOML: {error}")) from error
    return batch_of(document)


def batch_of(document: Mapping[str, Any]) -> Batch:
    """Return the batch that a document states: `models`, `meshes`, `seeds`, `dimensions`, and the options of a run.

    Raises:
        BatchError: members that are missing, unknown or of another type; all of them.
    """
    faults = list(_faults(document))
    if faults:
        raise BatchError(*faults)
    options = RunOptions.as_given({o.name: o.from_json(o.value_in(document)) for o in OPTIONS})
    batch = Batch(
        models=tuple(document["models"]),
        meshes=tuple(document["meshes"]),
        seeds=tuple(document.get("seeds", (0,))),
        dimensions={name: tuple(sizes) for name, sizes in document.get("dimensions", {}).items()},
        options=options,
    )
    faults = [fault for fault in options.faults() if fault.pointer != "/seed"]
    for k, seed in enumerate(batch.seeds):
        of_seed = (f for f in options.changed(seed=seed).faults() if f.pointer == "/seed")
        faults += [Fault(f"/seeds/{k}", fault.detail) for fault in of_seed]
    count = len(batch.models) * len(batch.meshes) * len(batch.seeds)
    for sizes in batch.dimensions.values():
        count *= len(sizes)
    if count > MOST_ENTRIES:
        faults.append(Fault("", f"these are {count:,} runs; at most {MOST_ENTRIES:,} make a batch"))
    if faults:
        raise BatchError(*faults)
    return batch


def _faults(document: Mapping[str, Any]) -> Iterator[Fault]:
    known = {*LISTS, "dimensions", *(option.path[0] for option in OPTIONS)} - {*OF_AN_ENTRY}
    for name in document:
        if name in OF_AN_ENTRY:
            if (name, document[name]) == ("start_from", AUTO):
                continue
            yield Fault(f"/{name}", f"is no member of a batch; {OF_AN_ENTRY[name]}")
        elif name not in known:
            yield Fault(f"/{name}", f"is no member of a batch; {near_hint(name, sorted(known))}")
    for name in ("models", "meshes"):
        yield from _list_faults(name, document.get(name), str, "a name or a path")
    if "seeds" in document:
        yield from _list_faults("seeds", document["seeds"], int, "a whole number of at least 0")
    budget, limits = document.get("budget", {}), [o.path[1] for o in OPTIONS if o.path[0] == "budget"]
    if not isinstance(budget, Mapping):
        yield Fault("/budget", f"expected a table such as seconds = 6, not {value_text(budget)}")
    else:
        for name in budget.keys() - {*limits}:
            yield Fault(f"/budget/{name}", f"limits nothing; {near_hint(name, limits)}")
    dimensions = document.get("dimensions", {})
    if not isinstance(dimensions, Mapping):
        yield Fault("/dimensions", f"expected a table such as batch = [1, 8], not {value_text(dimensions)}")
        return
    for name, sizes in dimensions.items():
        yield from _list_faults(f"dimensions/{name}", sizes, int, "a whole number of at least 1", least=1)


def _list_faults(name: str, values: Any, kind: type, what: str, least: int = 0) -> Iterator[Fault]:
    if values is None:
        yield Fault(f"/{name}", "is missing")
    elif not isinstance(values, list) or not values:
        yield Fault(f"/{name}", f"expected a list with at least one member, not {value_text(values)}")
    for k, value in enumerate(values if isinstance(values, list) else ()):
        fits = isinstance(value, kind) and not isinstance(value, bool)
        if not fits or (kind is int and value < least) or value == "":
            yield Fault(f"/{name}/{k}", f"expected {what}, not {value_text(value)}")
        elif value in values[:k]:
            yield Fault(f"/{name}/{k}", f"{value!r} is there twice")
