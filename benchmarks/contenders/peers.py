"""Optimizers of other libraries as contenders: on the plan spaces of the search, from its plans of propagation."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from benchmarks.contenders.encoding import TiedEncoding
from benchmarks.contenders.libraries import FACTORIES, POPULATION, Factory, Optimizer, missing
from benchmarks.contenders.ours import ENDLESS, PROPAGATED
from benchmarks.contenders.recorder import FrontRecorder, TimeSpent
from tapestry.hardware import Mesh
from tapestry.optimizer.run.clock import SearchClock
from tapestry.optimizer.run.initialization import initialize
from tapestry.optimizer.run.search import _new_state, _request
from tapestry.optimizer.run.starts import begin
from tapestry.optimizer.run.state import SearchState
from tapestry.optimizer.run.variants import coarsen_grids
from tapestry.teg.graph import Graph


@dataclass(frozen=True)
class OtherOptimizer:
    """An optimizer of another library, one per variant; a variant's turn comes by its share of the common front."""

    name: str
    library: str
    factory: Factory

    @property
    def missing(self) -> str | None:
        """The reason why it cannot run; None where it can."""
        return missing(self.library)

    def run(self, graph: Graph, mesh: Mesh, seed: int, recorder: FrontRecorder) -> None:
        """Optimize until the recorder's time is spent."""
        with suppress(TimeSpent):
            state = propagated(graph, mesh, seed, recorder)
            self._optimize(state, recorder)

    def _optimize(self, state: SearchState, recorder: FrontRecorder) -> None:
        rng, optimizers = state.rng, dict[int, tuple[TiedEncoding, Optimizer]]()
        _record(state, recorder, is_last=True)
        if not any(variant.has_choice for variant in state.variants):
            return
        while True:
            shares = [
                (1.0 + 2.0 * s) * v.has_choice for v, s in zip(state.variants, state.shares(), strict=True)
            ]
            chosen = int(rng.choice(len(shares), p=np.array(shares) / sum(shares)))
            if chosen not in optimizers:
                encoding = TiedEncoding(state.variants[chosen])
                optimizers[chosen] = encoding, self.factory(encoding, first_vectors(encoding, rng), rng)
            encoding, optimizer = optimizers[chosen]
            rows = optimizer.propose()
            recorder.check()
            optimizer.receive(*encoding.evaluate(rows))
            state.evaluations += len(rows)
            coarsen_grids(state.variants)
            _record(state, recorder)


def propagated(graph: Graph, mesh: Mesh, seed: int, recorder: FrontRecorder) -> SearchState:
    """Return the state of a search that has nothing but the plans of propagation, on the whole mesh and its parts."""
    request = _request(graph, mesh, None, {"evaluations": ENDLESS, "islands": 1, "seed": seed})
    state = _new_state(request, SearchClock(), PROPAGATED)
    initialize(state, None, (), _report_nothing, recorder.check)
    while state.starts:
        state.variants += [child.variant for child in begin(state, state.starts[0], None, recorder.check)]
        coarsen_grids(state.variants)
        _record(state, recorder)
    return state


def first_vectors(encoding: TiedEncoding, rng: np.random.Generator) -> np.ndarray:
    """Return a first population: plans of the front drawn from it, and random vectors where these are too few."""
    front = np.unique(encoding.front(), axis=0)
    front = front[rng.permutation(len(front))[:POPULATION]]
    return np.concatenate([front, encoding.random(POPULATION - len(front), rng)])


def _record(state: SearchState, recorder: FrontRecorder, is_last: bool = False) -> None:
    recorder.add(lambda: state.all_values()[0], state.evaluations, is_last)


def _report_nothing(phase: str) -> None:
    pass


PEERS = tuple(OtherOptimizer(name, *found) for name, found in FACTORIES.items())
