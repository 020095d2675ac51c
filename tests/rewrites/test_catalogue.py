"""The catalogue: names, near names, plug-ins that fit, clash or break."""

from dataclasses import dataclass
from typing import Any

import pytest

from rewrites import RULES, Rule, Sizes, rule_named
from rewrites.rules import catalogue


@dataclass
class Entry:
    """What `importlib.metadata` gives for one entry point."""

    name: str
    offer: Any
    value: str = "somewhere:RULES"

    def load(self) -> Any:
        if isinstance(self.offer, Exception):
            raise self.offer
        return self.offer


@pytest.fixture
def plugged(monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    def plug(*entries: Entry) -> dict[str, Rule]:
        found = list(entries)
        monkeypatch.setattr(
            "rewrites.rules.entry_points", lambda group: found if group == "tapestry.rules" else []
        )
        return catalogue.__wrapped__()

    return plug


def another(name: str) -> Rule:
    old = RULES[0]
    return Rule(name, old.left, old.right, old.doc, old.source, old.example)


def test_a_rule_is_found_by_name_and_near_names_are_listed() -> None:
    assert rule_named("fuse_cells").name == "fuse_cells"
    with pytest.raises(ValueError, match="unknown rule 'fuse_cell'; did you mean fuse_cells"):
        rule_named("fuse_cell")
    with pytest.raises(ValueError, match="known are abs_abs, "):
        rule_named("!")


def test_a_plug_in_adds_one_rule_or_several(plugged) -> None:  # type: ignore[no-untyped-def]
    known = plugged(Entry("one", another("first")), Entry("two", (another("second"), another("third"))))
    assert set(known) == {r.name for r in RULES} | {"first", "second", "third"}


def test_a_plug_in_that_clashes_is_named(plugged) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match="plug-in 'mine' defines rule 'fuse_cells', which exists already"):
        plugged(Entry("mine", another("fuse_cells")))


def test_a_plug_in_that_breaks_is_named(plugged) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=r"plug-in 'mine' \(somewhere:RULES\) cannot be loaded: ImportError"):
        plugged(Entry("mine", ImportError("gone")))
    with pytest.raises(ValueError, match="plug-in 'mine' offers 3, which is no Rule"):
        plugged(Entry("mine", (3,)))


def test_examples_are_the_same_each_time() -> None:
    for rule in RULES:
        assert rule.example(Sizes()).structural_hash == rule.example(Sizes()).structural_hash
