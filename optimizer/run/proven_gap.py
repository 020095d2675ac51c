"""The proven gap of the first objective while a search goes on, at a small share of its time."""

from __future__ import annotations

import numpy as np

from tapestry.optimizer.run.lower_bounds import ROUNDING, first_bound
from tapestry.optimizer.run.state import SearchState

# Rounds between two bounds, which take longer on larger programs: some percent of the time of the rounds.
PERIOD_ROUNDS, PERIOD_SLOTS = 8, 64


def is_bound_met(state: SearchState, most: float) -> bool:
    """Return whether the best plan is proven to be within a share `most` of all that the kept structures allow.

    At first, and then in one round of every period, structures are bounded that have no bound yet, and once the number
    of periods has doubled one whose bound is too low, up to the first one that stays too low. So a run repeats,
    whatever bounds take.
    """
    values, _ = state.all_values()
    if not len(values):
        return False
    least = float(values[:, 0].min()) * (1.0 - most) * (1.0 - ROUNDING)
    period = PERIOD_ROUNDS * (1 + len(state.variants[0].space.slots) // PERIOD_SLOTS)
    periods, is_between = divmod(state.rounds, period)
    is_between = is_between and bool(state.proven)
    may_renew = periods & (periods - 1) == 0
    for variant in state.variants:
        known = state.proven.get(variant.number, -np.inf)
        if known >= least:
            continue
        if is_between or (variant.number in state.proven and not may_renew):
            return False
        state.proven[variant.number] = max(known, first_bound(variant))
        if state.proven[variant.number] < least:
            return False
    return True
