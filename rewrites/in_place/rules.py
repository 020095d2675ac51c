"""All in-place rules: the tuples of this package's files, added up."""

from tapestry.rewrites.in_place.updates import UPDATES
from tapestry.rewrites.rule import Rule

IN_PLACE: tuple[Rule, ...] = (*UPDATES,)
