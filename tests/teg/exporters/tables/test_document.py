"""Tests of the JSON form of a table: it fits its schema, and names verdicts."""

import json

import jsonschema
import numpy as np
import pytest

from tapestry.teg.exporters.tables.document import table_document, table_schema, table_text
from tapestry.teg.exporters.tables.verdicts import TARGETS
from tests.teg.exporters.tables.plans import random_plan
from tests.teg.exporters.tables.tables import table_of


@pytest.mark.parametrize("seed", range(5))
def test_a_table_fits_its_published_schema(seed: int) -> None:
    table = random_plan(np.random.default_rng(seed)).table
    document = json.loads(table_text(table))
    jsonschema.validate(document, table_schema())
    assert document == table_document(table)
    for tensor in document["tensors"]:
        assert tensor["verdicts"].keys() == {target.name for target in TARGETS}
        axes = [axis for dim in tensor["dims"] for axis in dim["axes"]]
        terms = tensor.get("partial", {"axes": []})["axes"]
        inner = [axis for dim in tensor.get("factored", {"dims": []})["dims"] for axis in dim["axes"]]
        assert {*axes, *terms, *inner} | set(tensor["replicated"]) == set(table.sizes)


def test_the_verdict_says_which_dimension_a_framework_splits_otherwise() -> None:
    table = table_of(
        {"data": 2, "model": 4},
        ("x", "input", (10, 8), (("data", "model"), ())),
        ("h", "intermediate", (10, 8), (("data", "model"), ())),
        ("w", "parameter", (8, 16), (("model", "data"), ())),
    )
    found = {t["name"]: t["verdicts"] for t in table_document(table)["tensors"]}
    uneven = "dimension 0 of size 10 is split into 8 unequal parts, and only equal ones are accepted"
    chunks = "dimension 0 of size 10 is split in chunks of 2, and torch.chunk gives 2, 2, 1, 0, 2, 2, 1, 0"
    order = "dimension 0 is split over model, data, and DTensor splits in the mesh's order"
    assert found == {
        "x": {"jax": uneven, "shard_map": uneven, "dtensor": chunks, "shardy": uneven},
        "h": {"jax": "ok", "shard_map": uneven, "dtensor": chunks, "shardy": "ok"},
        "w": {"jax": "ok", "shard_map": "ok", "dtensor": order, "shardy": "ok"},
    }
