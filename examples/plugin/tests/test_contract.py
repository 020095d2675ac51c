"""Tests that the plug-in satisfies the contracts of Tapestry's own operators and rules."""

import numpy as np
import pytest
from tapestry_swiglu.objectives import OBJECTIVES
from tapestry_swiglu.operator import OPERATORS
from tapestry_swiglu.rules import RULES

from tapestry.costmodel.objectives import checked_objective
from tapestry.rewrites.testing import contract_violations as broken_by_rule
from tapestry.teg.operators.testing import contract_violations as broken_by_operator


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda objective: objective.name)
def test_objectives_are_computed_from_what_is_known(objective):
    assert checked_objective(objective) is objective


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.name)
def test_operators_keep_their_promises(operator):
    assert broken_by_operator(operator, np.random.default_rng(0)) == ()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_rules_keep_their_promises(rule):
    assert broken_by_rule(rule, np.random.default_rng(0)) == ()
