"""Stages: equal parts of a mesh, side by side, each of which runs its own blocks of a program (a pipeline).

A plan says how many there are, in which order their work comes, and of every block in which *part* of the pipeline it
is. Parts are dealt to the stages in turn: with more parts than stages a stage has several (an interleaved pipeline).
All that a plan says of sub-axes is about the devices of one stage.

Imported by whatever turns placements into a program, and by those who count or run it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tapestry.teg.brief import counted
from tapestry.teg.sharding.mesh_shape import MeshShape

SCHEDULES = ("gpipe", "1f1b", "interleaved", "zb-h1")


class HandTurn(NamedTuple):
    """A turn of a schedule that is given by hand: the way out (`f`), back (`b`) or what is late (`w`) of a part."""

    way: str
    round: int
    part: int

    def __str__(self) -> str:
        return f"{self.way}{self.round} of part {self.part}"


@dataclass(frozen=True)
class Stages:
    """The stages of a plan: how many, and the schedule by which they take turns at their parts.

    That is one of `SCHEDULES`, or the turns of every stage, given by hand: `f0 f1 b0 b1 | f0 b0 f1 b1`. A stage of
    several parts says which: `f0@2`.
    """

    count: int
    schedule: str = "1f1b"

    @property
    def is_by_hand(self) -> bool:
        return " " in self.schedule or "|" in self.schedule

    @property
    def schedule_name(self) -> str:
        """The schedule as a message names it."""
        return "given by hand" if self.is_by_hand else repr(self.schedule)

    @cached_property
    def turns(self) -> tuple[tuple[HandTurn, ...], ...]:
        """The turns of every stage, of a schedule that is given by hand.

        Raises:
            ValueError: there are not as many lists of turns as stages, or one has another word.
        """
        lists = self.schedule.split("|")
        if len(lists) != self.count:
            raise ValueError(
                f"the schedule has the turns of {counted(len(lists), 'stage')}, not of {self.count}"
            )
        found = []
        for stage, text in enumerate(lists):
            turns = [_TURN.fullmatch(word) for word in text.split()]
            if None in turns:
                word = text.split()[turns.index(None)]
                raise ValueError(f"stage {stage} has {word!r}, which is no turn such as f0, b3, w3 or f0@2")
            found.append(tuple(HandTurn(t[1], int(t[2]), int(t[3] or stage)) for t in turns if t is not None))
        return tuple(found)

    @property
    def has_late(self) -> bool:
        """True if what nothing waits for on the way back has turns of its own."""
        if self.is_by_hand:
            return any(turn.way == "w" for turns in self.turns for turn in turns)
        return self.schedule == "zb-h1"

    @property
    def part_count(self) -> int:
        """The number of parts that a program is divided into: two for each stage if they are interleaved."""
        if self.is_by_hand:
            return max(self.count, *(1 + turn.part for turns in self.turns for turn in turns))
        return 2 * self.count if self.schedule == "interleaved" else self.count

    def __str__(self) -> str:
        return f"{self.count} x {self.schedule}"


_STAGES = re.compile(r"(\d+) x ([a-z0-9_-]+|[a-z0-9@]+(?: (?:\| )?[a-z0-9@]+)+)")
_TURN = re.compile(r"([fbw])(\d+)(?:@(\d+))?")


def parse_stages(text: str) -> Stages | None:
    """Parse the stages that `str` wrote; empty for none.

    Raises:
        ValueError: the text is something else.
    """
    found = _STAGES.fullmatch(text)
    if text and found is None:
        raise ValueError(
            f"expected stages such as '4 x 1f1b', the count and a schedule among {', '.join(SCHEDULES)} or by hand, "
            f"such as '2 x f0 f1 b0 b1 | f0 b0 f1 b1', not {text!r}"
        )
    return None if found is None else Stages(int(found[1]), found[2])


def check_one_stage(stages: object | None, what: str) -> None:
    """Check that a plan or a program has no `stages`.

    Raises:
        ValueError: it has some, which `what` does not support.
    """
    if stages is not None:
        raise ValueError(f"{what} does not support plans with stages (pipelines) yet")


@dataclass(frozen=True)
class StageLayout:
    """The places of the stages: `count` submeshes of one shape in a mesh, one after the other.

    Devices are numbered stage by stage, those of a stage as in its own shape.

    Raises:
        ValueError: stages do not fit on the mesh without sharing devices.
    """

    mesh_shape: MeshShape
    stage_mesh_shape: MeshShape
    count: int

    def __post_init__(self) -> None:
        room = self.mesh_shape.device_count // self.stage_mesh_shape.device_count
        if not 1 <= self.count <= room:
            sizes = ", ".join(f"{n}:{s}" for n, s in self.stage_mesh_shape.axes)
            raise ValueError(
                f"{self.count} stages of {self.stage_mesh_shape.device_count} devices ({sizes}) share devices: "
                f"the mesh has {self.mesh_shape.device_count}, room for {room}"
            )

    @property
    def device_count(self) -> int:
        """The devices of all stages together."""
        return self.count * self.stage_mesh_shape.device_count

    @cached_property
    def places(self) -> np.ndarray:
        """The coordinates of each stage among the stages, `(count, axes)`: the last axis runs fastest."""
        room = [
            n // m for (_, n), (_, m) in zip(self.mesh_shape.axes, self.stage_mesh_shape.axes, strict=True)
        ]
        return np.array(np.unravel_index(np.arange(self.count), room)).T

    @cached_property
    def devices(self) -> np.ndarray:
        """The devices of each stage, as the whole mesh numbers them, `(count, devices of a stage)`."""
        sizes = np.array([n for _, n in self.stage_mesh_shape.axes], dtype=np.int64)
        inside = self.stage_mesh_shape.axis_coordinates
        coordinates = self.places[:, None, :] * sizes + inside[None]
        found: np.ndarray = np.ravel_multi_index(
            tuple(np.moveaxis(coordinates, -1, 0)), [n for _, n in self.mesh_shape.axes]
        )
        return found

    def rows(self, stage: int) -> slice:
        """Return where the devices of a stage stand among those of all stages."""
        size = self.stage_mesh_shape.device_count
        return slice(stage * size, (stage + 1) * size)

    def route(self, source: int, target: int) -> Route:
        """Return the way from one stage to another: over the slowest mesh axis along which they differ."""
        differs = np.flatnonzero(self.places[source] != self.places[target])
        k = int(differs[0])
        name, size = self.mesh_shape.axes[k]
        steps = (
            abs(int(self.places[source][k]) - int(self.places[target][k]))
            * dict(self.stage_mesh_shape.axes)[name]
        )
        return Route(name, max(1, min(steps, size // 2)))


@dataclass(frozen=True, eq=False)
class Pipeline:
    """The stages of a plan on a mesh, with the part of every block by its site."""

    stages: Stages
    layout: StageLayout
    parts: Mapping[str, int]

    def stage_of(self, site: str) -> int:
        """Return the stage of a block; one that nothing is stated of is in the first part."""
        return self.parts.get(site, 0) % self.stages.count


@dataclass(frozen=True)
class Route:
    """The way of a copy between stages: the mesh axis that it crosses, and how many devices lie between there."""

    axis: str
    distance: int
