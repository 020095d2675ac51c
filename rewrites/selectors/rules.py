"""All selector rules: the tuples of this package's files, added up."""

from tapestry.rewrites.rule import Rule
from tapestry.rewrites.selectors.broadcasts import BROADCASTS
from tapestry.rewrites.selectors.cuts import CUTS
from tapestry.rewrites.selectors.distribution import DISTRIBUTION
from tapestry.rewrites.selectors.exchanged_lookups import EXCHANGED_LOOKUPS
from tapestry.rewrites.selectors.joins import JOINS
from tapestry.rewrites.selectors.lookups import LOOKUPS
from tapestry.rewrites.selectors.pads import PADS
from tapestry.rewrites.selectors.refactoring import REFACTORING
from tapestry.rewrites.selectors.reshapes import RESHAPES
from tapestry.rewrites.selectors.views import VIEWS
from tapestry.rewrites.selectors.window_cuts import WINDOW_CUTS
from tapestry.rewrites.selectors.window_pads import WINDOW_PADS

SELECTORS: tuple[Rule, ...] = (
    *VIEWS,
    *CUTS,
    *DISTRIBUTION,
    *JOINS,
    *RESHAPES,
    *PADS,
    *LOOKUPS,
    *EXCHANGED_LOOKUPS,
    *WINDOW_CUTS,
    *WINDOW_PADS,
    *BROADCASTS,
    *REFACTORING,
)
