"""Tests of joined modules: what is joined, in which order, and what cannot be."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request

from tapestry.service.dashboard import pages
from tapestry.service.dashboard.bundles import (
    EXPORT,
    IMPORT,
    Bundle,
    BundleError,
    bundle_of,
    joined_modules,
    page_script,
)
from tapestry.service.dashboard.pages import SCRIPTS


def written(folder: Path, **modules: str) -> Path:
    for name, text in modules.items():
        (folder / f"{name}.js").write_text(text)
    return folder


def test_each_module_is_there_once_after_those_that_it_imports(tmp_path: Path) -> None:
    written(
        tmp_path,
        entry='import { a } from "./a.js";\nimport {\n  b as c,\n} from "./b.js";\na(c);\n',
        a='import { b } from "./b.js";\nexport async function a(x) { return x + b; }\n',
        b="export const b = 1;\nexport class D {}\n",
    )
    text = joined_modules(tmp_path, "entry.js")
    assert re.findall(r"^// (\w+)\.js$", text, re.MULTILINE) == ["b", "a", "entry"]
    assert "return { b, D };" in text and "const { b: c } = m0;" in text and "return { a };" in text
    assert not re.search(r"^(import|export)", text, re.MULTILINE)


@pytest.mark.parametrize(
    "statement",
    [
        'import x from "./b.js";',
        'import * as x from "./b.js";',
        "export default 1;",
        'await import("./b.js");',
    ],
)
def test_what_cannot_be_joined_is_named(tmp_path: Path, statement: str) -> None:
    written(tmp_path, entry=statement + "\n", b="")
    with pytest.raises(BundleError, match=r"^entry\.js: .* cannot be joined"):
        joined_modules(tmp_path, "entry.js")


def test_a_cycle_is_named(tmp_path: Path) -> None:
    written(tmp_path, a='import { b } from "./b.js";\n', b='import { a } from "./a.js";\n')
    with pytest.raises(BundleError, match=r"a\.js -> b\.js -> a\.js"):
        joined_modules(tmp_path, "a.js")


def test_every_page_is_joined_and_the_scripts_of_a_run_are_within_their_budget() -> None:
    for path in (SCRIPTS / "pages").glob("*.js"):
        page_script(SCRIPTS, path.stem)
    assert len(page_script(SCRIPTS, "run").packed) < 100_000


def test_every_imported_name_is_exported_and_imported_once() -> None:
    """Check what a browser would refuse to load: a joined module that lacks a name gives undefined for it."""
    wrong = []
    for path in sorted(SCRIPTS.rglob("*.js")):
        bound: list[str] = []
        for names, address in IMPORT.findall(path.read_text()):
            pairs = [each.split(" as ") for each in names.split(",") if each.strip()]
            exported = set(EXPORT.findall((path.parent / address).read_text()))
            wanted = {pair[0].strip() for pair in pairs}
            wrong += [f"{path.relative_to(SCRIPTS)}: {name} of {address}" for name in wanted - exported]
            bound += [pair[-1].strip() for pair in pairs]
        twice = {name for name in bound if bound.count(name) > 1}
        wrong += [f"{path.relative_to(SCRIPTS)}: {name} is imported twice" for name in sorted(twice)]
    assert wrong == []


def test_files_are_read_once_and_another_text_has_another_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    read_text = Path.read_text

    def noted(path: Path, *arguments: Any, **options: Any) -> str:
        read.append(path.name)
        return read_text(path, *arguments, **options)

    monkeypatch.setattr(Path, "read_text", noted)
    (tmp_path / "pages").mkdir()
    written(tmp_path / "pages", one='import { a } from "../a.js";\na();\n')
    written(tmp_path, a="export const a = () => 1;\n")
    first = page_script(tmp_path, "one")
    count = len(read)
    assert set(read) == {"one.js", "a.js"} and page_script(tmp_path, "one") is first
    assert len(read) == count
    assert bundle_of("other").digest != first.digest == bundle_of(first.text.decode()).digest


def test_an_error_is_shown_where_no_bundle_can_be_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Bundle:
        raise BundleError("cannot be joined")

    monkeypatch.setattr(pages, "style_sheet", fail)
    monkeypatch.setattr(pages, "page_script", fail)
    request = Request({"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": []})
    with pytest.raises(BundleError):
        pages.rules_page(request)
    answer = pages.error_page(request, 500)
    assert answer.status_code == 500 and b"Something went wrong in this program" in bytes(answer.body)
    assert b'href="/static/bundles/styles.css"' in bytes(answer.body)
