"""Our search in whole and in parts, as contenders."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from deap import base

from benchmarks.contenders.recorder import FrontRecorder, TimeSpent
from tapestry.hardware import Mesh
from tapestry.optimizer.placement.toolbox import default_toolbox
from tapestry.optimizer.placement.variation import RULES
from tapestry.optimizer.run.clock import Deadline
from tapestry.optimizer.run.parts import ALL_PARTS, SearchParts
from tapestry.optimizer.run.search import search
from tapestry.optimizer.run.snapshot import Snapshot
from tapestry.teg.graph import Graph

# Evaluations that no search reaches: the recorder ends it by its CPU seconds.
ENDLESS = 10**12
SNAPSHOT_S = 0.05
NO_FIRST_PLANS = SearchParts(
    propagation=False, exact=False, presearch=False, recomputation=False, views=False
)
PROPAGATED = replace(NO_FIRST_PLANS, propagation=True)
EXACT = replace(NO_FIRST_PLANS, exact=True)


@dataclass(frozen=True)
class Ours:
    """Our search with some of its parts: `flags` and `options` go to `search`; parents weigh alike if `is_uniform`.

    If `knows_limit`, the last of its CPU seconds is the deadline of the search, which shortens its preparation.
    """

    name: str
    parts: SearchParts = ALL_PARTS
    flags: Mapping[str, bool] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    is_uniform: bool = False
    knows_limit: bool = False

    @property
    def missing(self) -> str | None:
        """The reason why it cannot run: none."""
        return None

    def run(self, graph: Graph, mesh: Mesh, seed: int, recorder: FrontRecorder) -> None:
        """Search until the recorder's time is spent or the search ends by itself."""

        def record(snapshot: Snapshot) -> None:
            evaluations = snapshot.progress.evaluations
            recorder.add(lambda: snapshot.values, evaluations, snapshot.is_last)
            if snapshot.is_last:  # nothing that comes after the search counts
                raise TimeSpent

        with suppress(TimeSpent):
            search(
                graph,
                mesh,
                evaluations=ENDLESS,
                islands=1,
                seed=seed,
                parts=self.parts,
                on_checkpoint=record,
                checkpoint_s=SNAPSHOT_S,
                should_stop=lambda: recorder.is_over,
                toolbox=_uniform() if self.is_uniform else None,
                deadline=Deadline(recorder.limit_s, lambda: recorder.spent_s) if self.knows_limit else None,
                **self.flags,
                **self.options,
            )


def _uniform() -> base.Toolbox:
    """Return operators that give all members of a front the same weight as parents."""
    toolbox = default_toolbox()
    toolbox.register("weigh", _ones)
    return toolbox


def _ones(values: np.ndarray) -> np.ndarray:
    return np.ones(len(values))


def _without(part: str) -> SearchParts:
    return replace(ALL_PARTS, **{part: False})


WHOLE, IN_TIME = Ours("all"), Ours("all, with a deadline", knows_limit=True)
ALONE = (
    Ours("seeds only", PROPAGATED, {"search": False}),
    Ours("exact only", EXACT, {"search": False}),
    Ours("search only", NO_FIRST_PLANS, {"seeds": False}),
)
ABLATIONS = (
    Ours("without propagation", _without("propagation")),
    Ours("without exact plans", _without("exact")),
    Ours("without presearch", _without("presearch")),
    Ours("without recomputation", _without("recomputation")),
    Ours("without other views", _without("views")),
    Ours("without schedule orders", _without("schedule_orders")),
    Ours("without structural moves", _without("structure")),
    Ours("without epochs", _without("placement")),
    Ours("without parts of the mesh", options={"devices": "all"}),
    Ours("without weights of parents", is_uniform=True),
    *(Ours(f"without {rule}", replace(ALL_PARTS, left_out=(rule,))) for rule in RULES),
)
