"""Tests of the kernel class of each operator: by what the block does, never by its name."""

import numpy as np
import pytest

from tapestry.teg.builder import define
from tapestry.teg.graph import TensorType, attributes
from tapestry.teg.operators import catalog
from tapestry.teg.operators.kernel_classes import KERNEL_CLASSES, PARENTS
from tapestry.teg.operators.operator import Work, kernel_sizes, work_of

X, Y = ("input", 0), ("input", 1)
SHAPE = (8, 64)
ROWS = TensorType(SHAPE, "float16")
NAMES = ("a", "b")
DIMS = tuple(zip(NAMES, SHAPE, strict=True))
SCORES = ("s", "t")
ATTENTION = (
    ("contract", attributes(labels=(("s", "d"), ("t", "d")), output=SCORES), (0, 1)),
    ("softmax", attributes(axes=(1,)), (3,)),
    ("contract", attributes(labels=(SCORES, ("t", "e")), output=("s", "e")), (4, 2)),
)
KEPT = ("lt", ("random_uniform", ("const", 1), ("index", "b")), ("const", 0.9))
DROPOUT = (  # what is kept is drawn, not read: no activation gates it
    ("cell", attributes(expr=KEPT, labels=(), dims=DIMS, dtype="bool"), ()),
    (
        "cell",
        attributes(
            expr=("add", Y, ("mul", X, ("input", 2))), labels=(NAMES,) * 3, dims=DIMS, dtype="float16"
        ),
        (0, 1, 2),
    ),
)
SCORING = (ATTENTION[0], ("softmax", attributes(axes=(1,)), (2,)))


def cells(expr: object, inputs: int) -> dict[str, object]:
    return {"expr": expr, "labels": (NAMES,) * inputs, "dims": DIMS, "dtype": "float16"}


def work(operator: str, inputs: int, **attrs: object) -> tuple[Work, dict[str, np.ndarray]]:
    """Return the work of an operator on equal inputs, and what the speed of its kernel depends on."""
    types = (ROWS,) * inputs
    definition, outputs = define(operator, attributes(**attrs), types)
    found = work_of(catalog()[operator], definition, types, outputs)
    dims = definition.signature.dims if definition.signature is not None else ()
    return found, kernel_sizes(found, [d.name for d in dims], np.array([d.size for d in dims]))


@pytest.mark.parametrize(
    ("operator", "inputs", "attrs", "kernel", "sizes"),
    [
        ("cell", 1, cells(("gelu", X), 1), "elementwise", {}),
        ("cell", 2, cells(("add", X, Y), 2), "elementwise", {}),
        (
            "cell",
            2,
            cells(("mul", ("silu", X), Y), 2),
            "gated",
            {"row": 64, "kernels": 2, "separate_elements": 512 * (2 + 3)},
        ),
        ("softmax", 1, {"axes": (1,)}, "softmax", {"row": 64}),
        (
            "reduce",
            1,
            {"monoid": "sum", "labels": NAMES, "output": ("b",)},
            "reduction",
            {"row": 8},
        ),
        ("reduce", 1, {"monoid": "sum", "labels": NAMES, "output": ("b", "a")}, "transposition", {}),
        (
            "contract",
            2,
            {"labels": (("a", "k"), ("b", "k")), "output": NAMES},
            "matrix_product",
            {"m": 8, "n": 8, "k": 64, "batch": 1},
        ),
        (
            "fused",
            3,
            {"body": ATTENTION, "types": ((SHAPE, "float16"),) * 3, "results": (5,)},
            "attention",
            {},
        ),
        (
            "fused",
            2,
            {"body": DROPOUT, "types": ((SHAPE, "float16"),) * 2, "results": (3, 2)},
            "elementwise",
            {},
        ),
        (
            "fused",
            2,
            {"body": SCORING, "types": ((SHAPE, "float16"),) * 2, "results": (3,)},
            "fused_product",
            {},
        ),
    ],
)
def test_the_class_and_sizes_of_an_operator(
    operator: str, inputs: int, attrs: dict[str, object], kernel: str, sizes: dict[str, int]
) -> None:
    found, known = work(operator, inputs, **attrs)
    assert found.kernel_class == kernel
    assert {name: int(size) for name, size in known.items()} == sizes


def test_every_class_inherits_from_one_of_two_roots() -> None:
    for kernel in KERNEL_CLASSES:
        ancestor = kernel
        while (parent := PARENTS[ancestor]) is not None:
            ancestor = parent
        assert ancestor in ("elementwise", "matrix_product")
