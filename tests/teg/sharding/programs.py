"""Small random programs and random legal plans for them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tapestry.teg.builder import GraphBuilder
from tapestry.teg.graph import Block, Graph
from tapestry.teg.operators.selectors import (
    broadcast,
    permuted,
    reversed_along,
    selected,
    sliced,
    unsqueezed,
    view_attributes,
)
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.spec import WHOLE, Split
from tapestry.teg.sharding.strategy import Strategy, splittable
from tapestry.teg.signature import PARALLEL
from tapestry.teg.views import ViewMap

MESHES = (
    MeshShape.of(gpu=1),
    MeshShape.of(gpu=2),
    MeshShape.of(gpu=4),
    MeshShape.of(gpu=5),
    MeshShape.of(gpu=6),
    MeshShape.of(gpu=7),
    MeshShape.of(gpu=8),
    MeshShape.of(node=2, gpu=3),
    MeshShape.of(node=2, gpu=4),
    MeshShape.of(node=2, board=2, gpu=2),
)


def random_split(rng: np.random.Generator, axes: list[str]) -> Split:
    return Split(tuple(axes), int(rng.choice([1, 1, 1, 2, 3, 4]))) if axes else WHOLE


def random_strategy(rng: np.random.Generator, block: Block, mesh_shape: MeshShape) -> Strategy:
    """Draw a strategy: each sub-axis goes to some dimension that may be split, or to none."""
    if block.signature is None:
        return Strategy()
    allowed = splittable(block.signature)
    kinds = [d.kind for d, ok in zip(block.signature.dims, allowed, strict=True) if ok and d.kind != PARALLEL]
    monoid = str(rng.choice(kinds)) if kinds else None
    free = [
        k
        for k, d in enumerate(block.signature.dims)
        if allowed[k] and d.size > 0 and d.kind in (PARALLEL, monoid)
    ]
    axes: list[list[str]] = [[] for _ in block.signature.dims]
    names = [s.name for s in mesh_shape.sub_axes]
    rng.shuffle(names)
    for name in names:
        if free and rng.random() < 0.75:
            axes[int(rng.choice(free))].append(name)
    if rng.random() < 0.7:
        axes = [list(mesh_shape.in_order(group)) for group in axes]
    return Strategy(tuple(random_split(rng, group) for group in axes))


def random_placements(rng: np.random.Generator, graph: Graph, mesh_shape: MeshShape) -> Placements:
    blocks = {}
    for block in graph.blocks:
        if block.operator == "view" or rng.random() < 0.1:
            continue
        blocks[block.site] = Placement(
            random_strategy(rng, block, mesh_shape),
            tuple(int(n) for n in rng.integers(0, 4, len(block.inputs))),
            tuple(bool(b) for b in rng.random(len(block.inputs)) < 0.3),
        )
    inputs = "replicated" if rng.random() < 0.1 else "chosen"
    outputs = "gathered" if rng.random() < 0.2 else "sharded"
    return Placements(blocks, inputs=inputs, outputs=outputs)


class Programs:
    """A random program that grows block by block; tensors stay small."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.build = GraphBuilder("random")
        self.made: list[str] = []

    def size(self) -> int:
        return int(self.rng.integers(1, 8))

    def source(self) -> None:
        shape = [self.size() for _ in range(int(self.rng.integers(1, 4)))]
        value = None
        role = str(self.rng.choice(["activation", "parameter", "buffer"]))
        if self.rng.random() < 0.3:
            value = self.rng.standard_normal(shape).astype(np.float32)
        self.made.append(self.build.source("in", shape, "float32", role, value))

    def pick(self, rank: int | None = None) -> str | None:
        known = [t for t in self.made if rank is None or len(self.shape(t)) == rank]
        return str(self.rng.choice(known)) if known else None

    def shape(self, tensor: str) -> tuple[int, ...]:
        return self.build.tensors[tensor].shape

    def apply(self, operator: str, inputs: list[str], **attrs: object) -> None:
        self.made.extend(self.build.apply(operator, inputs, site=operator, **attrs))

    def view_of(self, tensor: str, view: ViewMap) -> None:
        self.made.extend(self.build.apply("view", [tensor], site="view", **dict(view_attributes(view))))

    def view(self) -> None:
        tensor = self.pick()
        assert tensor is not None
        shape, rng = self.shape(tensor), self.rng
        kind = int(rng.integers(0, 6))
        if kind == 0:
            self.view_of(tensor, permuted(shape, [int(k) for k in rng.permutation(len(shape))]))
        elif kind == 1 and shape:
            self.view_of(tensor, reversed_along(shape, [int(rng.integers(len(shape)))]))
        elif kind == 2 and shape:
            axis = int(rng.integers(len(shape)))
            self.view_of(tensor, selected(shape, axis, int(rng.integers(shape[axis]))))
        elif kind == 3 and len(shape) < 3:
            self.view_of(tensor, unsqueezed(shape, [int(rng.integers(len(shape) + 1))]))
        elif kind == 4 and len(shape) < 3:
            self.view_of(tensor, broadcast(shape, (self.size(), *shape)))
        elif shape:
            starts = [int(rng.integers(n)) for n in shape]
            ends = [int(rng.integers(a + 1, n + 1)) for a, n in zip(starts, shape, strict=True)]
            self.view_of(tensor, sliced(shape, starts, ends, [int(rng.integers(1, 3)) for _ in shape]))

    def cell(self) -> None:
        tensor = self.pick()
        assert tensor is not None
        shape = self.shape(tensor)
        names = tuple(f"c{k}" for k in range(len(shape)))
        inputs, labels = [tensor], [names]
        expr: tuple[object, ...] = ("tanh", ("input", 0))
        others = [t for t in self.made if self.fits(self.shape(t), shape)]
        if others:
            other = str(self.rng.choice(others))
            inputs.append(other)
            wanted = names[len(names) - len(self.shape(other)) :]
            labels.append(tuple(n if s != 1 else "" for n, s in zip(wanted, self.shape(other), strict=True)))
            expr = ("add", expr, ("input", 1))
        if names and self.rng.random() < 0.4:
            expr = ("mul", expr, ("add", ("index", str(self.rng.choice(names))), ("const", 1.0)))
        dims = tuple(zip(names, shape, strict=True))
        self.apply("cell", inputs, expr=expr, labels=tuple(labels), dims=dims, dtype="float32")

    @staticmethod
    def fits(small: tuple[int, ...], big: tuple[int, ...]) -> bool:
        """Return whether `small` broadcasts to `big` by numpy's rule."""
        tail = big[len(big) - len(small) :]
        return len(small) <= len(big) and all(s in (1, b) for s, b in zip(small, tail, strict=True))

    def contract(self) -> None:
        a = self.pick()
        assert a is not None
        names = [f"x{k}" for k in range(len(self.shape(a)))]
        b_shape = [self.size()]
        b_names = ["n"]
        for name, size in zip(names, self.shape(a), strict=True):
            if self.rng.random() < 0.5 and len(b_names) < 3:
                b_names.append(name)
                b_shape.append(size)
        b = self.build.source("w", b_shape, "float32", "parameter")
        shared = [n for n in names if n in b_names]
        output = [n for n in (*names, "n") if n not in shared or self.rng.random() < 0.3]
        self.rng.shuffle(output)
        output = output[:3]
        labels = (tuple(names), tuple(b_names))
        self.apply("contract", [a, b], labels=labels, output=tuple(output))

    def reduce(self) -> None:
        tensor = self.pick()
        assert tensor is not None
        labels = tuple(f"r{k}" for k in range(len(self.shape(tensor))))
        output = tuple(n for n in labels if self.rng.random() < 0.5)
        monoid = str(self.rng.choice(["sum", "max", "min", "logsumexp", "prod"]))
        keep = (0,) if self.rng.random() < 0.3 else ()
        self.apply("reduce", [tensor], monoid=monoid, labels=labels, output=output, keep=keep)

    def normalize(self) -> None:
        tensor = self.pick()
        assert tensor is not None
        shape = self.shape(tensor)
        if not shape:
            return
        if self.rng.random() < 0.5:
            self.apply("softmax", [tensor], axes=(int(self.rng.integers(len(shape))),))
        else:
            self.apply("layer_norm", [tensor], axes=(len(shape) - 1,), eps=1e-3)

    def concat(self) -> None:
        tensor = self.pick()
        assert tensor is not None
        if not self.shape(tensor):
            return
        axis = int(self.rng.integers(len(self.shape(tensor))))
        fitting = [
            t
            for t in self.made
            if len(self.shape(t)) == len(self.shape(tensor))
            and all(
                a == b
                for k, (a, b) in enumerate(zip(self.shape(t), self.shape(tensor), strict=True))
                if k != axis
            )
        ]
        self.apply("concat", [tensor, str(self.rng.choice(fitting))], axis=axis)

    def pad(self) -> None:
        tensor = self.pick()
        assert tensor is not None
        shape = self.shape(tensor)
        if shape:
            low = [int(n) for n in self.rng.integers(0, 2, len(shape))]
            high = [int(n) for n in self.rng.integers(0, 3, len(shape))]
            self.apply("pad", [tensor], low=tuple(low), high=tuple(high))

    def gather(self) -> None:
        table = self.pick(2)
        if table is None:
            return
        axis = int(self.rng.integers(2))
        indices = self.rng.integers(-self.shape(table)[axis], self.shape(table)[axis], self.size())
        at = self.build.source("at", indices.shape, "int64", "buffer", indices)
        self.apply("gather", [table, at], axis=axis)

    def image(self) -> None:
        image = self.pick(3)
        if image is None:
            return
        _, channels, width = self.shape(image)
        kernel, stride = int(self.rng.integers(1, 4)), int(self.rng.integers(1, 3))
        pads = (int(self.rng.integers(0, 3)), int(self.rng.integers(0, 3)))
        if width + sum(pads) < kernel:
            return
        out = (width + sum(pads) - kernel) // stride + 1
        read = min(width, stride * (out - 1) - pads[0] + kernel)
        if read <= 0 or stride > kernel:
            return
        if read < width:
            self.view_of(image, sliced(self.shape(image), (0, 0, 0), (*self.shape(image)[:2], read)))
            image = self.made[-1]
        geometry = {"strides": (stride,), "pads": pads, "dilations": (1,)}
        if self.rng.random() < 0.3:
            self.apply("pool", [image], kind="average", kernel=(kernel,), count_include_pad=True, **geometry)
            return
        groups = channels if self.rng.random() < 0.3 else 1
        w = self.build.source("k", (groups * 2, channels // groups, kernel), "float32", "parameter")
        self.apply("conv", [image, w], groups=groups, **geometry)

    def reshape(self) -> None:
        tensor = self.pick()
        assert tensor is not None
        shape = self.shape(tensor)
        if len(shape) == 2:
            self.apply("reshape", [tensor], shape=(shape[0] * shape[1],))
        elif len(shape) == 1 and shape[0] % 2 == 0:
            self.apply("reshape", [tensor], shape=(2, shape[0] // 2))


def random_program(rng: np.random.Generator, steps: int = 10) -> Graph:
    """Build a program of a few sources, `steps` random blocks and two sinks."""
    p = Programs(rng)
    for _ in range(3):
        p.source()
    moves: list[Callable[[], None]] = [
        *(p.view, p.view, p.cell, p.cell, p.contract, p.contract, p.reduce),
        *(p.normalize, p.concat, p.pad, p.gather, p.image, p.image, p.reshape),
    ]
    for _ in range(steps):
        moves[int(rng.integers(len(moves)))]()
    p.build.sink(p.made[-1], site="last")
    other = p.pick()
    assert other is not None
    p.build.sink(other, site="other")
    return p.build.build()
