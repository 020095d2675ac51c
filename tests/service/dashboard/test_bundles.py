"""Tests of joined modules: what is joined, in which order, and what cannot be."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tapestry.service.dashboard.bundles import BundleError, bundle_of, joined_modules, page_script
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


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    written(tmp_path / "pages", one="first();\n")
    before = page_script(tmp_path, "one")
    (tmp_path / "pages" / "one.js").write_text("second();\n")
    after = page_script(tmp_path, "one")
    assert (
        b"second()" in after.text and before.digest != after.digest == bundle_of(after.text.decode()).digest
    )
