"""Tests of random numbers by seed and coordinate: the same in every shard, and random enough."""

import numpy as np
import pytest

import tapestry
from tapestry.teg.arrays.randomness import random_bits, random_uniform
from tapestry.teg.evaluate import evaluate, run_block
from tapestry.teg.zspace import ZRange

COUNT = 1 << 18


def test_the_first_numbers_never_change():
    """Check that programs are repeatable across machines and versions."""
    assert random_bits(0, np.arange(3)).tolist() == [
        4295609322031115183,
        9735418304920043012,
        4249279899635324798,
    ]
    assert random_bits(-1, np.array([2**62])).tolist() == random_bits(2**64 - 1, np.array([2**62])).tolist()


def test_uniform_numbers_are_uniform_and_unrelated():
    one, other = random_uniform(7, np.arange(COUNT)), random_uniform(8, np.arange(COUNT))

    assert one.min() >= 0
    assert one.max() < 1
    counts, _ = np.histogram(one, 64, (0, 1))
    expected = COUNT / 64
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    assert 25 < chi_square < 115  # 63 degrees of freedom: mean 63, deviation 11
    for a, b in ((one, other), (one[1:], one[:-1]), (one[1000:], one[:-1000])):
        assert abs(np.corrcoef(a, b)[0, 1]) < 5 / np.sqrt(COUNT)
    ones = np.bitwise_count(random_bits(3, np.arange(COUNT)) ^ random_bits(3, np.arange(COUNT) + 1))
    assert abs(float(ones.mean()) - 32) < 5 * 4 / np.sqrt(COUNT)


def test_normal_numbers_are_normal():
    with tapestry.program() as p:
        p.output("x", p.randn(row=512, column=512, seed=5, dtype="float64"))

    x = evaluate(p.graph, {})["x"].reshape(-1)

    assert abs(x.mean()) < 5 / np.sqrt(x.size)
    assert abs(x.var() - 1) < 5 * np.sqrt(2 / x.size)
    assert abs((x**4).mean() - 3) < 5 * np.sqrt(96 / x.size)
    assert float((np.abs(x) < 1).mean()) == pytest.approx(0.6827, abs=0.005)


def test_every_shard_makes_its_own_part_the_same():
    with tapestry.program() as p:
        p.output("u", p.rand(6, 10, seed=3))
        p.output("n", p.randn(6, 10, seed=3))
    values = evaluate(p.graph, {})

    for name in "un":
        block = p.graph.producers[p.graph.by_site[name].inputs[0]]
        part = run_block(block.definition, ZRange((2, 3), (5, 9)), [], p.graph.output_types(block))[0]
        np.testing.assert_array_equal(part, values[name][2:5, 3:9])
    assert len(np.unique(values["u"])) == 60
    assert not np.array_equal(values["u"], values["n"])
