"""Programs of any number of equal layers, for measurements by size."""

from __future__ import annotations

import math

import tapestry
from tapestry.teg.graph import Graph
from tapestry.teg.programs import Handle, Program

TOKENS, HEADS, HEAD_WIDTH, HIDDEN = 2048, 32, 128, 11008


def transformer(layers: int) -> Graph:
    """Build a decoder of so many layers in the sizes of Llama-2 7B, without normalization and embedding."""
    with tapestry.program(f"transformer_{layers}_layers") as p:
        x = p.input("x", token=TOKENS, features=HEADS * HEAD_WIDTH)
        for layer in range(layers):
            x = x + _attention(p, x, f"{layer}.")
            x = x + _feed_forward(p, x, f"{layer}.")
        p.output("y", x)
    return p.graph


def _attention(p: Program, x: Handle, prefix: str) -> Handle:
    features = HEADS * HEAD_WIDTH
    q, k, v = (
        x @ p.parameter(f"{prefix}w_{name}", features=features, head=HEADS, width=HEAD_WIDTH)
        for name in "qkv"
    )
    k, v = k.rename(token="source"), v.rename(token="source")
    seen = (q.contract(k, "width") / math.sqrt(HEAD_WIDTH)).softmax("source").contract(v, "source")
    out = p.parameter(f"{prefix}w_out", head=HEADS, width=HEAD_WIDTH, features=features)
    return seen.contract(out, "head", "width")


def _feed_forward(p: Program, x: Handle, prefix: str) -> Handle:
    features = HEADS * HEAD_WIDTH
    up = x @ p.parameter(f"{prefix}w_up", features=features, hidden=HIDDEN)
    return up.relu() @ p.parameter(f"{prefix}w_down", hidden=HIDDEN, features=features)
