"""Causal attention over a batch, by names alone: `python -m tapestry.examples.attention [SECONDS]`."""

import math

import tapestry
from tapestry.examples.printing import show
from tapestry.teg.programs import Program


def attention(batch: int = 4, tokens: int = 1024, heads: int = 16, width: int = 64) -> Program:
    """Build multi-head self-attention from hidden states to hidden states."""
    features = heads * width
    with tapestry.program("attention") as p:
        x = p.input("x", batch=batch, token=tokens, features=features)
        q, k, v = (x @ p.parameter(f"w_{name}", features=features, head=heads, width=width) for name in "qkv")
        k, v = k.rename(token="source"), v.rename(token="source")
        scores = q.contract(k, "width") / math.sqrt(width)
        scores = p.cell(
            lambda s: (s.coordinate("source") > s.coordinate("token")).where(float("-inf"), s), scores
        )
        seen = scores.softmax("source").contract(v, "source")
        out = p.parameter("w_out", head=heads, width=width, out=features)
        p.output("y", seen.contract(out, "head", "width"))
    return p


if __name__ == "__main__":
    show(attention().graph)
