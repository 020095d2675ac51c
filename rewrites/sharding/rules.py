"""All rules of sharding: the tuples of this package's files, added up."""

from tapestry.rewrites.rule import Rule
from tapestry.rewrites.sharding.chunks import CHUNKS
from tapestry.rewrites.sharding.partial_sums import PARTIAL_SUMS
from tapestry.rewrites.sharding.waypoints import WAYPOINTS

SHARDING: tuple[Rule, ...] = (*PARTIAL_SUMS, *CHUNKS, *WAYPOINTS)
