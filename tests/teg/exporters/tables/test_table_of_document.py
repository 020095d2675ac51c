"""Tests that a table comes back from its document."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from tapestry.teg.exporters.tables.document import table_document, table_of_document, table_text
from tests.teg.exporters.tables.plans import random_plan


@pytest.mark.parametrize("seed", range(4))
def test_a_table_comes_back_from_its_document(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for table in (random_plan(rng).table for _ in range(5)):
        found = table_of_document(json.loads(table_text(table)))
        assert found == replace(table, tensors=tuple(replace(t, site="") for t in table.tensors))
        assert table_document(found) == table_document(table)


def test_a_document_of_another_version_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected a document of format 'tapestry\.shardings', version 1"):
        table_of_document({"format": "tapestry.shardings", "version": 2})
