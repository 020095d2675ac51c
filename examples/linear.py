"""Linear + ReLU, the whitepaper's first example: `python -m tapestry.examples.linear [SECONDS]`."""

import tapestry
from tapestry.examples.printing import show
from tapestry.teg.programs import Program


def linear(batch: int = 8192, inputs: int = 4096, outputs: int = 4096) -> Program:
    """Build `y = relu(x @ w + b)`, with dimensions matched by name."""
    with tapestry.program("linear") as p:
        x = p.input("x", batch=batch, features=inputs)
        w = p.parameter("w", features=inputs, out=outputs)
        b = p.parameter("b", out=outputs)
        p.output("y", (x @ w + b).relu())
    return p


if __name__ == "__main__":
    show(linear().graph)
