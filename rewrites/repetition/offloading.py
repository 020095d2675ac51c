"""Offloading: late readers of a value have it from the memory of the host, where it waits for them."""

from __future__ import annotations

from tapestry.rewrites.regions import PutWaypoint
from tapestry.rewrites.repetition.recomputation import divisions, read_twice
from tapestry.rewrites.rule import Match, Rule, op, rest
from tapestry.rewrites.waypoints import is_place
from tapestry.teg.sharding.host import HOST

OFFLOAD = "offload"


def _is_stored(m: Match) -> bool:
    """Return whether the block makes one tensor in the memory of the device."""
    (block,) = m.roots
    return len(block.outputs) == 1 and not block.is_view and block.operator not in ("source", "waypoint")


OFFLOADING: tuple[Rule, ...] = (
    Rule(
        name=OFFLOAD,
        left=op(None, rest("xs")),
        right=PutWaypoint(HOST),
        when=_is_stored,
        choices=divisions,
        further=is_place,
        doc="""
        Late readers of a value have it from the host, where it is copied before.

        y = f(x); g(y); ...; h(y)  ->  y = f(x); g(y); y' = waypoint(y) on the host; ...; h(y')
        Always: a waypoint changes no value. The choice says how many readers are early, in program order, and before
        which block the copy to the host has ended; that is right after the early readers if it says nothing. From then
        on until it is copied back the value takes no memory of the device.
        """,
        source="Rajbhandari et al., ZeRO-Infinity, 2021; `offload_dst` of `jax.checkpoint_policies`",
        example=lambda size: read_twice(size, "offload", is_repeated=False),
    ),
)
