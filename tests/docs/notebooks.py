"""The cells of `docs/notebooks.md` and what they show; `python -m tests.docs.notebooks` takes their pictures."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from playwright.sync_api import sync_playwright

from tests.docs.generated import FOLDER
from tests.service.dashboard.conftest import CHROMIUM, FLAGS

PAGE = FOLDER.parent / "notebooks.md"
IMAGES = FOLDER.parent / "images"
PICTURES = ("program", "mesh", "result", "plan", "verification")


def cells() -> Iterator[Any]:
    """Run the Python blocks of the page one after the other, as cells; yield the value of the last line of each."""
    names: dict[str, Any] = {"__name__": "notebook"}
    for source in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        *statements, last = ast.parse(source).body
        assert isinstance(last, ast.Expr), "a cell ends with what it shows"
        exec(compile(ast.Module(statements, []), str(PAGE), "exec"), names)
        yield eval(compile(ast.Expression(last.value), str(PAGE), "eval"), names)


def main() -> None:
    """Take a picture of what each cell shows."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1000, "height": 800})
        for name, value in zip(PICTURES, cells(), strict=True):
            page.set_content(f"<!doctype html><meta charset=utf-8><body>{value._repr_html_()}</body>")
            page.locator(".tapestry-card").screenshot(path=IMAGES / f"notebook-{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
