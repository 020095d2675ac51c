"""A matrix product as a product and a sum: `python -m tapestry.examples.matmul [SECONDS]`.

The whitepaper's rewrite for sharding along the summed dimension: every product of two elements is a point of an
index space (row, inner, column), and the sum over `inner` is a reduction that splits into partial sums.
"""

import tapestry
from tapestry.examples.printing import show
from tapestry.teg.programs import Program


def in_one_block(rows: int = 2048, inner: int = 2048, columns: int = 2048) -> Program:
    """Build the product as one contraction, whose index space has the same three dimensions."""
    with tapestry.program("matmul") as p:
        x = p.input("x", row=rows, inner=inner)
        w = p.input("w", inner=inner, column=columns)
        p.output("y", x @ w)
    return p


def as_product_and_sum(rows: int = 64, inner: int = 256, columns: int = 64) -> Program:
    """Build the product by broadcasting, multiplying and adding up."""
    with tapestry.program("product_and_sum") as p:
        x = p.input("x", row=rows, inner=inner)
        w = p.input("w", inner=inner, column=columns)
        p.output("y", (x * w).sum("inner"))
    return p


if __name__ == "__main__":
    show(in_one_block().graph)
    show(as_product_and_sum().graph)
