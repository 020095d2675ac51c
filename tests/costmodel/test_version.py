"""Tests that costs change only together with the version of the cost model."""

import json

import pytest

from tapestry.costmodel import version
from tapestry.costmodel.version import COST_MODEL_VERSION, cost_model_note
from tests.costmodel import golden

STORED = json.loads(golden.FILE.read_text())


def test_costs_are_stored_for_this_version_of_the_cost_model() -> None:
    assert STORED["version"] == COST_MODEL_VERSION, (
        f"the stored costs are of version {STORED['version']} of the cost model, this is {COST_MODEL_VERSION}: "
        "store them again by `python -m tests.costmodel.golden`"
    )
    assert STORED["costs"].keys() == golden.PLANS.keys()


@pytest.mark.parametrize("name", golden.PLANS)
def test_costs_change_only_with_the_version(name: str) -> None:
    costs, stored = golden.PLANS[name].costs(), STORED["costs"].get(name, {})
    changed = [
        f"{column}: {stored[column]} -> {costs.get(column)}"
        for column in stored
        if costs.get(column) != stored[column]
    ]
    assert not changed, (
        f"the costs of {name!r} have changed ({', '.join(changed)}): if the cost model has, raise COST_MODEL_VERSION "
        "in costmodel/version.py and add what changed to its list, so that stored plans are not compared with new "
        "ones; then, or if only the plan or its program has changed, run `python -m tests.costmodel.golden`"
    )


def test_the_list_of_versions_has_a_line_for_each() -> None:
    lines = (version.__doc__ or "").splitlines()
    numbers = [line.partition(". ")[0] for line in lines if line[:1].isdigit()]
    assert numbers == [str(number) for number in range(1, COST_MODEL_VERSION + 1)]


def test_costs_of_other_versions_are_noted() -> None:
    assert cost_model_note(COST_MODEL_VERSION) is None
    assert cost_model_note(1) == f"costed by an older model (1; this is {COST_MODEL_VERSION})"
    newer = COST_MODEL_VERSION + 1
    assert cost_model_note(newer) == f"costed by a newer model ({newer}; this is {COST_MODEL_VERSION})"
