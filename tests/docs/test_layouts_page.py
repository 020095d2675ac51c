"""Tests that the drawings of the layouts page are those that the command draws."""

import re
from xml.etree import ElementTree

import pytest

from tapestry.service.cli import main
from tests.docs.test_docs import ROOT

PAGE = (ROOT / "docs" / "layouts.md").read_text()
DRAWN = re.findall(r"^```text\n\$ tapestry layout draw '([^\n]*)'\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_there_are_drawings() -> None:
    assert len(DRAWN) == PAGE.count("$ tapestry") == 4


@pytest.mark.parametrize(("text", "diagram"), DRAWN)
def test_a_drawing_is_what_the_command_draws(
    text: str, diagram: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["layout", "draw", text]) == 0
    assert capsys.readouterr().out == diagram


def test_the_picture_is_the_one_of_the_last_drawing(tmp_path) -> None:
    assert main(["layout", "draw", DRAWN[-1][0], "--svg", str(tmp_path / "layout.svg")]) == 0
    drawn = (tmp_path / "layout.svg").read_text()
    assert drawn == (ROOT / "docs" / "images" / "layout.svg").read_text()
    assert ElementTree.fromstring(drawn) is not None
