"""Tests of plug-ins: valid ones are loaded, broken or clashing ones are left out by name, and nothing is raised."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tapestry.teg.plugins import (
    Loaded,
    PlugInError,
    PlugInGroup,
    load,
    once,
    require,
    require_name,
    sequence_of,
)


@dataclass(frozen=True)
class Thing:
    """A member that the plug-ins of these tests supply."""

    name: str
    others: tuple[str, ...] = ()


def examined(offered: Any) -> Thing:
    thing = require(offered, Thing)
    require_name(thing.name)
    return thing


THINGS = PlugInGroup(
    "tapestry.things", "thing", sequence_of(Thing), examined, lambda thing: (thing.name, *thing.others)
)


@dataclass(frozen=True)
class Entry:
    """An entry point as `importlib.metadata` returns it."""

    name: str
    candidate: Any
    distribution: str = "acme"
    value: str = "acme:THINGS"
    dist: Any = field(init=False)

    def __post_init__(self) -> None:
        origin = SimpleNamespace(metadata={"Name": self.distribution}, version="1.0")
        object.__setattr__(self, "dist", origin)

    def load(self) -> Any:
        return self.candidate() if callable(self.candidate) else self.candidate


Plug = Callable[..., Loaded[Thing]]


@pytest.fixture
def plug(monkeypatch: pytest.MonkeyPatch) -> Plug:
    def plugged(*entries: Entry) -> Loaded[Thing]:
        monkeypatch.setattr("tapestry.teg.plugins.entry_points", lambda group: list(entries))
        return load(THINGS, {"ours"})

    return plugged


def raising(error: BaseException) -> Callable[[], Any]:
    def candidate() -> Any:
        raise error

    return candidate


def message(loaded: Loaded[Thing]) -> list[str]:
    return [f"{p.name}: {fault}" for p in loaded.plug_ins for fault in p.faults]


def test_one_member_or_a_tuple_of_them_is_let_in_in_the_order_of_names(plug: Plug) -> None:
    loaded = plug(Entry("b", (Thing("second"), Thing("third"))), Entry("a", Thing("first")))

    assert list(loaded.members) == ["first", "second", "third"]
    assert [(str(p), p.name, p.members, p.faults) for p in loaded.plug_ins] == [
        ("acme 1.0", "a", ("first",), ()),
        ("acme 1.0", "b", ("second", "third"), ()),
    ]


def test_a_name_that_comes_with_tapestry_stays_ours(plug: Plug) -> None:
    loaded = plug(Entry("a", (Thing("ours"), Thing("fine"))))

    assert list(loaded.members) == ["fine"]
    assert message(loaded) == [
        "a: ours: a thing 'ours' comes with Tapestry, which keeps the name; "
        "rename it; a prefix of your package's name keeps it apart from others"
    ]


def test_of_two_plug_ins_with_one_name_nobody_has_it(plug: Plug) -> None:
    twins = (Entry("a", Thing("same")), Entry("b", (Thing("same"), Thing("fine")), distribution="bolt"))
    loaded = plug(*twins)

    assert list(loaded.members) == ["fine"]
    assert [fault.message for p in loaded.plug_ins for fault in p.faults] == [
        "the name 'same' is offered more than once, by acme 1.0 (acme:THINGS) and bolt 1.0 (acme:THINGS): "
        "nobody has it"
    ] * 2
    assert "acme 1.0 offers it, but: same: the name" in loaded.left_out("same")
    assert loaded.left_out("fine") == loaded.left_out("never heard of") == ""
    assert plug(*reversed(twins)) == loaded


def test_other_names_clash_too(plug: Plug) -> None:
    loaded = plug(Entry("a", Thing("a", ("ours",))), Entry("b", (Thing("b", ("c",)), Thing("c"))))

    assert not loaded.members
    assert [fault.member for p in loaded.plug_ins for fault in p.faults] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("candidate", "fault"),
    [
        (raising(ImportError("gone")), "ImportError: gone; repair or uninstall it"),
        (raising(SystemExit(3)), "it tried to end the process (exit 3); repair or uninstall it"),
        (raising(GeneratorExit()), "GeneratorExit: ; repair or uninstall it"),
        (raising(PlugInError("is odd", "mend it")), "is odd; mend it"),
        (raising(ValueError("two\nlines " + "x" * 400)), "ValueError: two lines " + "x" * 287 + "..."),
        (3, "expected Thing, or a tuple of Thing, not 3; let the entry point name it as"),
        ("ab", "expected Thing, or a tuple of Thing, not 'ab'; let the entry point name it as"),
        ((3,), "expected Thing, not 3; offer tests.teg.test_plugins.Thing only"),
        (Thing(""), "its name is ''; give it a name of 1 to 100 printable characters"),
        (Thing("a\x1b[2J"), r"a?[2J: its name is 'a\x1b[2J'; give it a name"),
        (raising(ValueError("\x1b[2J")), "ValueError: ?[2J; repair or uninstall it"),
    ],
)
def test_a_broken_plug_in_is_left_out_by_name(plug: Plug, candidate: Any, fault: str) -> None:
    loaded = plug(Entry("broken", candidate), Entry("fine", Thing("fine"), distribution="bolt"))

    assert list(loaded.members) == ["fine"]
    (only,) = message(loaded)
    assert only.startswith(f"broken: {fault}")


def test_one_bad_member_does_not_take_the_others_with_it(plug: Plug) -> None:
    loaded = plug(Entry("a", (Thing("first"), None, Thing("third"))))

    assert list(loaded.members) == ["first", "third"]
    assert [fault.message for fault in loaded.plug_ins[0].faults] == ["expected Thing, not None"]


def test_ctrl_c_is_not_a_fault_of_the_plug_in(plug: Plug) -> None:
    with pytest.raises(KeyboardInterrupt):
        plug(Entry("a", raising(KeyboardInterrupt())))


def test_what_a_plug_in_prints_does_not_reach_standard_output(
    plug: Plug, capsys: pytest.CaptureFixture[str]
) -> None:
    plug(Entry("a", lambda: print("hello") or Thing("fine")))

    assert tuple(capsys.readouterr()) == ("", "hello\n")


def test_plug_ins_with_faults_are_named_once_in_one_line(
    plug: Plug, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tapestry.teg.plugins._reported", set())
    caplog.set_level("INFO", "tapestry.plugins")
    for _ in range(2):
        plug(Entry("a", (Thing("ours"), 3)), Entry("b", Thing("fine")))

    warned = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    specified = [r.getMessage() for r in caplog.records if r.levelname == "INFO"]
    assert warned == [
        "plug-ins left out in part or whole: acme 1.0; `tapestry plugins` says why and what to do"
    ]
    assert all(line.startswith("plug-in acme 1.0, tapestry.things 'a' (acme:THINGS): ") for line in specified)
    assert len(specified) == 2 and specified[0].endswith("(and 1 more)")


def test_damaged_metadata_of_one_distribution_are_reported_and_the_rest_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = "[tapestry.things]\nb = bolt_things:B\n"
    for name, text in (("acme", "[tapestry.things]\nno value\n"), ("bolt", made)):
        folder = tmp_path / f"{name}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text(text)
    (tmp_path / "bolt_things.py").write_text(f"from {__name__} import Thing\nB = Thing('fine')\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    loaded = load(THINGS, ())

    assert list(loaded.members) == ["fine"]
    (damaged,) = [p for p in loaded.plug_ins if p.faults]
    assert str(damaged) == "acme 1.0"
    assert "its list of entry points cannot be read" in damaged.faults[0].message


def test_a_plug_in_that_asks_for_its_own_catalog_is_refused(plug: Plug) -> None:
    @once
    def catalog() -> Loaded[Thing]:
        return plug(Entry("a", lambda: catalog().members["ours"]))

    (plug_in,) = catalog().plug_ins
    assert plug_in.faults[0].message == "asks for the catalog that it is being added to"
    assert catalog() is catalog()


def test_loading_happens_once_and_again_after_an_interruption() -> None:
    def attempts() -> Iterator[int]:
        yield from range(9)

    count = attempts()

    @once
    def loaded() -> int:
        if next(count) == 0:
            raise KeyboardInterrupt
        return 7

    with pytest.raises(KeyboardInterrupt):
        loaded()
    assert (loaded(), loaded(), next(count)) == (7, 7, 2)
