"""Tests of the roots of an import: what is deferred is emitted when it is needed, after what it is computed from."""

import numpy as np

from tapestry.teg.builder import GraphBuilder
from tapestry.teg.importers.lowering.storage import ConstantRoot, Generator, LoweredStorage


def test_a_long_chain_of_deferred_values_is_emitted_in_order() -> None:
    storage = LoweredStorage(GraphBuilder("chain"))
    keys = [storage.defer("v", ConstantRoot("v", np.arange(3.0)))]
    for k in range(400):
        reads = tuple((key, ("a",)) for key in dict.fromkeys((keys[-1], keys[0])))
        expr = ("neg", ("input", 0)) if len(reads) == 1 else ("add", ("input", 0), ("input", 1))
        keys.append(storage.defer(f"s{k}", Generator(f"s{k}", expr, (("a", 3),), reads, "float64")))

    assert storage.site(keys[-1]) == "s399"

    assert [block.site for block in storage.builder.blocks] == ["v", *(f"s{k}" for k in range(400))]
    assert storage.builder.blocks[-1].inputs == ("s398", "v")
