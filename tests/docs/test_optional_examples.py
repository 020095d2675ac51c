"""Tests that examples of optional libraries (fences `py` that begin with `# needs: NAME`) run where installed."""

from __future__ import annotations

import os
from importlib import import_module

import pytest

from tests.docs.test_docs import DOCUMENTS, ROOT, blocks

NEEDS = "# needs: "
CASES = [
    pytest.param(
        block, id=f"{document.relative_to(ROOT).as_posix()}-{block.splitlines()[0].removeprefix(NEEDS)}"
    )
    for document in DOCUMENTS
    for block in blocks(document, "py")
]


@pytest.mark.slow
@pytest.mark.parametrize("block", CASES)
def test_optional_examples_run(block: str) -> None:
    first = block.splitlines()[0]
    assert first.startswith(NEEDS)
    library = first.removeprefix(NEEDS)
    if "CI" in os.environ:
        import_module(library)
    else:
        pytest.importorskip(library)
    exec(compile(block, f"example of {library}", "exec"), {"__name__": "example"})
