"""The choice of views: neighboring sub-axes of a mesh joined at every cut, and ranked by the plans that come of it.

A plan's time depends mostly on where the mesh is cut at all, so views of two axes, which compile in a fraction of the
time, tell which views of more axes to try first.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from tapestry.costmodel.view import LOGICAL_AXES, View, groupings
from tapestry.optimizer.archive.fronts import hypervolume
from tapestry.optimizer.run.first_plans import insert_exact
from tapestry.optimizer.run.fixed_degrees import degrees_of
from tapestry.optimizer.run.options import RunOptions
from tapestry.optimizer.run.variants import (
    SubMesh,
    new_variant,
)
from tapestry.teg.graph import Graph
from tapestry.teg.stopping import CheckStop, never_stop

MOST_VIEWS = 8
PLANS = 64  # exact plans of each view of two axes
CORNER = 1.1  # of the hypervolume, times the worst value


def has_views(submesh: SubMesh, options: RunOptions) -> bool:
    """Return whether a mesh has several views: more sub-axes than a view has axes, and no pins or fixed degrees.

    Where blocks are pinned the view that pins are checked on is the only one; where degrees are fixed, one with them.
    """
    return len(submesh.view.mesh_shape.sub_axes) > LOGICAL_AXES and not (options.pins or degrees_of(options))


def ranked_views(
    submesh: SubMesh,
    graph: Graph,
    options: RunOptions,
    limit: int | None = None,
    check_stop: CheckStop = never_stop,
) -> tuple[list[View], int]:
    """Return the views of a mesh, the most promising one first, and how many plans were evaluated to rank them.

    At most `limit` plans are. A mesh of which `has_views` is false has one view.
    """
    if not has_views(submesh, options):
        return [submesh.view], 0
    fronts, evaluated = dict[int, np.ndarray](), 0
    for view in groupings(submesh.view.mesh_shape, 2):
        check_stop()
        variant = new_variant(0, submesh.on_view(view), graph, (), options, check_stop)
        most = PLANS if limit is None else min(PLANS, limit - evaluated)
        evaluated += sum(insert_exact(variant, most))
        archive = variant.archive
        fronts.update((cut, archive.value[: int(archive.size[0])].copy()) for cut in view.cuts)
    views = list(groupings(submesh.view.mesh_shape, LOGICAL_AXES))
    rankings = [sorted(views, key=partial(_promise, values)) for values in _criteria(fronts)]
    in_turn = dict.fromkeys(view for places in zip(*rankings, strict=True) for view in places)
    return list(in_turn)[:MOST_VIEWS], evaluated


def _promise(values: Mapping[int, float], view: View) -> list[float]:
    """Return what the cuts of a view are worth by one criterion, the best of them first; less is better."""
    return sorted(values[cut] for cut in view.cuts)


def _criteria(fronts: Mapping[int, np.ndarray]) -> list[dict[int, float]]:
    """Return the value of each cut by every criterion: the first objective, the volume not dominated, other objectives.

    A cut without a feasible plan has the value infinity.
    """
    corner = CORNER * np.concatenate([*fronts.values()]).max(axis=0, initial=0.0) + 1e-9
    volume = {cut: 1.0 - hypervolume(values, corner) for cut, values in fronts.items()}
    least = {cut: values.min(axis=0, initial=np.inf) for cut, values in fronts.items()}
    first, *others = ({cut: float(best[k]) for cut, best in least.items()} for k in range(len(corner)))
    return [first, volume, *others]
