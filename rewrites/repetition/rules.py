"""All rules of repetition: the tuples of this package's files, added up."""

from tapestry.rewrites.repetition.offloading import OFFLOADING
from tapestry.rewrites.repetition.recomputation import RECOMPUTATION
from tapestry.rewrites.rule import Rule

REPETITION: tuple[Rule, ...] = (*RECOMPUTATION, *OFFLOADING)
