"""The time of copies by what has one error in common: each round on links, and moves within the devices."""

from __future__ import annotations

from collections.abc import Sequence

from tapestry.hardware.mesh import Mesh
from tapestry.hardware.timing.collectives import step_ticks
from tapestry.hardware.timing.errors import TimeClass, exchange_classes
from tapestry.teg.sharding.copies import Round

Weights = tuple[tuple[TimeClass, int], ...]


def round_weights(mesh: Mesh, rounds: Sequence[tuple[Round, int]]) -> Weights:
    """Return the class of each round of a copy, with the ticks that the round takes alone, in the order of classes.

    With each round comes the most bytes that a device receives in it.
    """
    classes = exchange_classes(mesh, [each for each, _ in rounds])
    alone = (
        int(step_ticks(mesh.axis(each.axis), each.kind, each.members, most, each.stride))
        for each, most in rounds
    )
    return tuple(sorted(zip(classes, alone, strict=True)))


def shared_ticks(weights: Weights, ticks: int) -> list[tuple[TimeClass, int]]:
    """Share the time of rounds that work side by side among them, as what each takes alone."""
    shares, total, left = list[tuple[TimeClass, int]](), sum(weight for _, weight in weights), ticks
    for time_class, weight in weights:
        share = left * weight // total if total else left
        shares.append((time_class, share))
        left, total = left - share, total - weight
    return shares
