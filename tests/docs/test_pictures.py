"""Tests of the pictures in the documentation: each is shown, and each of a page is there light and dark."""

from __future__ import annotations

import re

from tests.docs import screenshots
from tests.docs.generated import FOLDER

DOCS = FOLDER.parent
IMAGES = {path.name for path in screenshots.IMAGES.iterdir()}
SHOWN = re.compile(r"!\[[^\]]+\]\((?:docs/|\.\./)?images/([^)]+)\)")


def test_every_picture_is_shown_and_every_shown_one_is_there() -> None:
    pages = (*DOCS.rglob("*.md"), DOCS.parent / "README.md")
    assert {name for page in pages for name in SHOWN.findall(page.read_text())} == IMAGES


def test_pages_are_shown_as_they_are_taken_light_and_dark() -> None:
    gallery = SHOWN.findall((DOCS / "pages.md").read_text())
    names = [f"dashboard-{name}-{how}.webp" for name in screenshots.PICTURES for how in ("light", "dark")]
    assert sorted(gallery) == sorted(names)
