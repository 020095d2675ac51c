"""Tests that each tutorial can be followed from its first to its last line, and prints what its page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.tutorials import FOLDER, IMAGES, PAGES, PICTURES, Reader, agrees, fences_of, masked, rewritten


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_a_tutorial_prints_what_its_page_says(name: str, tmp_path: Path) -> None:
    checked = 0
    for printed in Reader(tmp_path).follow((FOLDER / name).read_text()):
        if printed.expected:
            checked += 1
            assert agrees(printed.expected.text, printed.text), (
                f"{printed.source.text}prints\n{masked(printed.text)}"
                "if that is right, run `python -m tests.docs.tutorials`"
            )
        else:
            assert printed.text == "", (
                f"{printed.source.text}prints {printed.text!r}, of which the page says nothing"
            )
    assert checked >= 3
    for picture, file in PICTURES.get(name, {}).items():
        assert (IMAGES / picture).read_text() == (tmp_path / file).read_text()


def test_all_tutorials_are_followed() -> None:
    assert sorted(path.name for path in FOLDER.glob("*.md")) == sorted(PAGES)


def test_a_page_in_which_a_figure_is_wrong_is_found(tmp_path: Path) -> None:
    page = "Print.\n\n```python\nx = 3\n```\n\n```python\nprint(x, 4)\n```\n\n```text\n3 5\n```\n"
    silent, printed = Reader(tmp_path).follow(page)
    assert (silent.text, silent.expected) == ("", None)
    assert printed.expected is not None
    assert printed.text == "3 4\n"
    assert not agrees(printed.expected.text, printed.text)
    assert agrees(rewritten(printed.expected.text, printed.text), printed.text)


@pytest.mark.parametrize(
    ("expected", "printed", "is_so"),
    [
        ("a … c\n", "a b c\n", True),
        ("a … c\n", "a b d\n", False),
        ("a\n…\nd\n", "a\nb\nc\nd\n", True),
        ("a\n…\nd\n", "a\nb\nc\n", False),
        ("stored as run …\n", "stored as run 0123456789ab\n", True),
        ("a\n", "a   \n", True),
        ("a\n", "a\nb\n", False),
    ],
)
def test_dots_stand_for_any_text_and_nothing_else_does(expected: str, printed: str, is_so: bool) -> None:
    assert agrees(expected, printed) is is_so


def test_what_a_page_leaves_out_stays_left_out() -> None:
    assert rewritten("a\n…\nd\n", "e\nf\ng\nh\n") == "e\n…\nh\n"


def test_text_behind_prose_is_no_output() -> None:
    page = "```sh\ntrue\n```\n\nNot run:\n\n```text\nsomething\n```\n"
    assert [fence.follows for fence in fences_of(page)] == [False, False]


def test_failures_of_commands_are_reported(tmp_path: Path) -> None:
    for command in ("false", "tapestry layout describe nonsense"):
        with pytest.raises(RuntimeError, match=f"{command}: exit code"):
            list(Reader(tmp_path).follow(f"```sh\n{command}\n```\n"))
