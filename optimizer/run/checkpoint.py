"""Checkpoints: a search between two rounds as a value, sufficient to resume it without a difference.

Graphs are not kept: the structural moves of a variant lead to its graph again, which is compiled again. The meaning
of the arrays depends on the program's own code and on the request; the fingerprint records both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tapestry.optimizer.archive.archive import Archive
from tapestry.optimizer.archive.rows import used_rows
from tapestry.optimizer.placement.credits import Statistics
from tapestry.optimizer.run.plan import Progress, ReportBase
from tapestry.optimizer.run.serialization import SerializationError, deserialize, serialize
from tapestry.optimizer.run.state import SearchStart, SearchState
from tapestry.optimizer.run.variants import Variant
from tapestry.rewrites import Move
from tapestry.teg.brief import counted, shown
from tapestry.teg.sharding.text import placements_from_document, placements_to_document

MAGIC = b"tapestry search 8\n"
# Parts of the header that are not values of the checkpoint as they stand.
CONVERTED = ("variants", "structural", "varied", "known", "views", "starts", "proven", "base")
PROGRESS_COLUMNS = ("seconds", "evaluations", "front", "hypervolume", "fraction")


class CheckpointError(ValueError):
    """Error raised when a search cannot resume from a checkpoint."""


class StaleCheckpoint(CheckpointError):
    """Error raised for a checkpoint of another release or search: intact, but its arrays have no meaning here."""


@dataclass(frozen=True, eq=False)
class SavedVariant:
    """A variant without recomputable data: its history of moves, and the used rows of its archive.

    `submesh` is the index of its mesh in the search, `structure` the structure that the moves must lead to, `taken` the
    candidate structural moves already used, each as its index in the list at that time, `probation` the epochs that
    it has left without a plan of the front; `spent` and `gained` are the variant's, as are its
    `origins`.
    """

    number: int
    submesh: int
    moves: tuple[Move, ...]
    structure: str
    taken: tuple[int, ...]
    probation: int
    spent: float
    gained: float
    archive: Archive
    origins: dict[int, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return shown(
            "SavedVariant", (str(self.number), counted(len(self.moves), "move"), self.structure[:12])
        )


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The complete state of a search between two rounds.

    `stopped` is the reason why the search has ended, or is empty; `islands` and `seed` are those it must resume with.
    `best` are the least values of costs with a relative bound; `views` are the cuts of each submesh's view, `starts`
    what is left to begin; `numbered` counts the numbers that variants were given, `proven` are bounds of the first
    objective by such a number. `spent_s` is what its clock had counted, `base` what its reports are relative to.
    """

    fingerprint: Mapping[str, str]
    islands: int
    seed: int
    stopped: str
    evaluations: int
    rounds: int
    numbered: int
    timings: Mapping[str, float]
    spent_s: float
    base: ReportBase
    history: tuple[Progress, ...]
    rng: Mapping[str, Any]
    statistics: Statistics
    recent: Statistics
    structural: Mapping[str, tuple[int, int]]
    credits: Mapping[str, Any]
    varied: tuple[int, int]
    refused: Mapping[str, str]
    known: tuple[str, ...]
    reference: np.ndarray | None
    best_volume: float | None
    stale_rounds: int
    started_from: int
    anchors: np.ndarray | None
    epsilons: tuple[np.ndarray, ...]
    best: np.ndarray
    views: tuple[tuple[int, ...], ...]
    starts: tuple[SearchStart, ...]
    proven: Mapping[int, float]
    variants: tuple[SavedVariant, ...]

    def __repr__(self) -> str:
        sizes = (counted(len(self.variants), "variant"), f"{self.evaluations:,} evaluations")
        return shown("Checkpoint", (*sizes, f"seed={self.seed}", f"islands={self.islands}", self.stopped))

    def to_bytes(self) -> bytes:
        """Serialize the checkpoint, compressed and with a checksum; `from_bytes` reads it back, bit for bit."""
        return serialize(MAGIC, self._header(), self._arrays())

    def _header(self) -> dict[str, Any]:
        plain = (
            *(
                "fingerprint",
                "islands",
                "seed",
                "stopped",
                "evaluations",
                "rounds",
                "numbered",
                "timings",
                "spent_s",
                "rng",
            ),
            *(
                "structural",
                "credits",
                "varied",
                "refused",
                "known",
                "best_volume",
                "stale_rounds",
                "started_from",
            ),
            "views",
        )
        variants = [
            {
                "number": v.number,
                "sub_mesh": v.submesh,
                "moves": [m.to_json() for m in v.moves],
                "structure": v.structure,
                "taken": v.taken,
                "probation": v.probation,
                "spent": v.spent,
                "gained": v.gained,
                "origins": list(v.origins.items()),
            }
            for v in self.variants
        ]
        starts = [
            (
                *(start.kind, start.submesh, [m.to_json() for m in start.moves]),
                [placements_to_document(placements) for placements in start.plans],
            )
            for start in self.starts
        ]
        proven = list(self.proven.items())  # members of JSON would have texts for names
        return {name: getattr(self, name) for name in plain} | {
            "variants": variants,
            "starts": starts,
            "proven": proven,
            "base": self.base[:2],  # the corner is an array
        }

    def _arrays(self) -> dict[str, np.ndarray]:
        arrays = {"best": self.best}
        for name in ("statistics", "recent"):
            arrays |= {f"{name}.{field}": array for field, array in getattr(self, name)._asdict().items()}
        arrays |= _history_arrays(self.history)
        for name, array in (
            ("reference", self.reference),
            ("anchors", self.anchors),
            ("base.corner", self.base.corner),
        ):
            if array is not None:
                arrays[name] = array
        arrays |= {f"epsilon.{k}": epsilon for k, epsilon in enumerate(self.epsilons)}
        for k, variant in enumerate(self.variants):
            arrays |= {f"{k}.{name}": array for name, array in variant.archive._asdict().items()}
        return arrays

    @staticmethod
    def from_bytes(content: bytes) -> Checkpoint:
        """Deserialize a checkpoint that `to_bytes` wrote.

        Raises:
            CheckpointError: the bytes are damaged, of another version, or no checkpoint at all.
        """
        try:
            header, arrays = deserialize(MAGIC, content)
            return _checkpoint_of(header, arrays)
        except SerializationError as error:
            raise CheckpointError(
                f"these {len(content)} bytes are no checkpoint to go on from: {error}"
            ) from error
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CheckpointError(
                f"the checkpoint lacks something, or has it in another form: {error!r}"
            ) from error


def freeze(state: SearchState, rng: Mapping[str, Any]) -> Checkpoint:
    """Return the state as a value; `rng` is the generator's state from before the current round."""
    structural = state.structural
    return Checkpoint(
        fingerprint=dict(state.fingerprint),
        islands=state.islands,
        seed=state.seed,
        stopped=state.stopped,
        evaluations=state.evaluations,
        rounds=state.rounds,
        numbered=state.numbered,
        timings=dict(state.timings),
        spent_s=state.clock.spent_s,
        base=state.base,
        history=tuple(state.history),
        rng=rng,
        statistics=Statistics(*(counts.copy() for counts in state.statistics)),
        recent=Statistics(*(counts.copy() for counts in state.recent)),
        structural={name: (n, structural.improved[name]) for name, n in structural.applied.items()},
        credits=structural.credits.to_json(),
        varied=state.varied,
        refused=dict(structural.refused),
        known=tuple(sorted(structural.known)),
        reference=state.reference,
        best_volume=state.best_volume,
        stale_rounds=state.stale_rounds,
        started_from=state.started_from,
        anchors=state.anchors,
        epsilons=tuple(submesh.goal.epsilon.copy() for submesh in state.submeshes),
        best=state.best_known(),
        views=tuple(tuple(sorted(submesh.view.cuts)) for submesh in state.submeshes),
        starts=tuple(state.starts),
        proven=dict(state.proven),
        variants=tuple(_saved(variant, state) for variant in state.variants),
    )


def _saved(variant: Variant, state: SearchState) -> SavedVariant:
    return SavedVariant(
        variant.number,
        next(k for k, submesh in enumerate(state.submeshes) if submesh is variant.submesh),
        variant.moves,
        variant.structure,
        tuple(state.structural.taken.get(variant.number, ())),
        variant.probation,
        variant.spent,
        variant.gained,
        used_rows(variant.archive),
        dict(variant.origins),
    )


def _history_arrays(history: tuple[Progress, ...]) -> dict[str, np.ndarray]:
    objectives = max((len(report.best) for report in history), default=0)
    nothing = (np.nan,) * objectives
    rows = [[getattr(report, name) for name in PROGRESS_COLUMNS] for report in history]
    best = [report.best or nothing for report in history]
    return {
        "history": np.array(rows, dtype=np.float64).reshape(len(history), len(PROGRESS_COLUMNS)),
        "history.best": np.array(best, dtype=np.float64).reshape(len(history), objectives),
    }


def _history_of(arrays: Mapping[str, np.ndarray]) -> tuple[Progress, ...]:
    return tuple(
        Progress(
            "searching",
            float(row[0]),
            int(row[1]),
            int(row[2]),
            float(row[3]),
            () if np.isnan(best).any() else tuple(float(v) for v in best),
            float(row[4]),
        )
        for row, best in zip(arrays["history"], arrays["history.best"], strict=True)
    )


def _base_of(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> ReportBase:
    seconds, evaluations = header["base"]
    return ReportBase(float(seconds), int(evaluations), arrays.get("base.corner"))


def _statistics_of(arrays: Mapping[str, np.ndarray], name: str) -> Statistics:
    return Statistics(*(arrays[f"{name}.{field}"] for field in Statistics._fields))


def _checkpoint_of(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Checkpoint:
    saved = header["variants"]
    made, entered = header.get("varied", (0, 0))  # not in checkpoints of earlier releases
    epsilons = sum(name.startswith("epsilon.") for name in arrays)
    return Checkpoint(
        **{name: value for name, value in header.items() if name not in CONVERTED},
        structural={name: (int(a), int(b)) for name, (a, b) in header["structural"].items()},
        varied=(int(made), int(entered)),
        known=tuple(header["known"]),
        base=_base_of(header, arrays),
        history=_history_of(arrays),
        statistics=_statistics_of(arrays, "statistics"),
        recent=_statistics_of(arrays, "recent"),
        reference=arrays.get("reference"),
        anchors=arrays.get("anchors"),
        epsilons=tuple(arrays[f"epsilon.{k}"] for k in range(epsilons)),
        best=arrays["best"],
        proven={int(number): float(bound) for number, bound in header.get("proven", ())},
        views=tuple(tuple(int(cut) for cut in cuts) for cuts in header["views"]),
        starts=tuple(
            SearchStart(
                *(str(kind), int(submesh), tuple(map(Move.from_json, moves))),
                tuple(map(placements_from_document, plans)),
            )
            for kind, submesh, moves, plans in header["starts"]
        ),
        variants=tuple(
            SavedVariant(
                int(v["number"]),
                int(v["sub_mesh"]),
                tuple(Move.from_json(m) for m in v["moves"]),
                str(v["structure"]),
                tuple(int(n) for n in v["taken"]),
                int(v["probation"]),
                float(v["spent"]),
                float(v["gained"]),
                Archive(**{name: arrays[f"{k}.{name}"] for name in Archive._fields}),
                # Not in checkpoints of earlier releases.
                {int(digest): str(kind) for digest, kind in v.get("origins", ())},
            )
            for k, v in enumerate(saved)
        ),
    )
