"""Programs of one transformer layer forward and backward, heads and features divided among the devices of a node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.measurements.layers import EXPANSION
from benchmarks.measurements.rows import Question
from benchmarks.measurements.systems import RankGroup, Systems
from benchmarks.measurements.workload import DTYPES, MAKESPAN, UnpredictedError, Workload, whole
from tapestry.hardware.mesh import Mesh
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.graph import attributes
from tapestry.teg.operators.selectors import sliced, view_attributes
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.spec import WHOLE, Split
from tapestry.teg.sharding.strategy import Strategy

SPLIT = "af"  # heads and features of the feed-forward part, which the devices divide
_X, _Y, _Z = ("input", 0), ("input", 1), ("input", 2)
AGAIN = {"baseline_no_recompute": "", "full_recompute": ".again"}  # ending of what the backward part reads
KEPT = ("mul", _X, _Y)  # what dropout leaves: a mask of zeros and 1 / (1 - p)


class LayerBuilder:
    """A builder of programs whose dimensions have names of one letter; those of `SPLIT` are divided everywhere."""

    def __init__(self, mesh: Mesh, sizes: Mapping[str, int], dtype: str) -> None:
        self.builder, self.sizes, self.dtype, self.mesh = GraphBuilder("layer"), sizes, dtype, mesh
        self.names: dict[str, str] = {}
        self.blocks: dict[str, Placement] = {}
        self.axes = tuple(s.name for s in MeshShape(mesh.axis_sizes).sub_axes)

    def _made(self, site: str, names: str, dims: Sequence[str]) -> str:
        """Note a block's tensor, and place the block by the names of its index dimensions."""
        self.names[site] = names
        splits = (Split(self.axes) if name in SPLIT else WHOLE for name in dims)
        self.blocks[site] = Placement(Strategy(tuple(splits)))
        return site

    def source(self, site: str, names: str, role: str = "activation") -> str:
        self.builder.source(site, [self.sizes[name] for name in names], self.dtype, role)
        return self._made(site, names, names)

    def contract(self, site: str, left: str, right: str, form: str) -> str:
        """Append a product: `form` has the names of both operands and of the result, as `bsh,hf->bsf`."""
        operands, result = form.split("->")
        labels = tuple(tuple(part) for part in operands.split(","))
        self.builder.apply("contract", (left, right), site=site, labels=labels, output=tuple(result))
        return self._made(site, result, self._dims())

    def cells(self, site: str, expr: Any, *inputs: str) -> str:
        """Append an element-wise block over the dimensions of the first input."""
        names = self.names[inputs[0]]
        labels = tuple(tuple(self.names[tensor]) for tensor in inputs)
        dims = tuple((name, self.sizes[name]) for name in names)
        self.builder.apply("cell", inputs, site=site, expr=expr, labels=labels, dims=dims, dtype=self.dtype)
        return self._made(site, names, names)

    def along_rows(self, operator: str, site: str, *inputs: str, **options: Any) -> str:
        """Append a normalization of the last dimension."""
        names = self.names[inputs[0]]
        self.builder.apply(operator, inputs, site=site, axes=(len(names) - 1,), **options)
        return self._made(site, names, names[:-1])

    def third(self, site: str, tensor: str, position: int) -> str:
        """Append a view of queries, keys or values, which lie side by side in one tensor."""
        names, width = "basd", self.sizes["d"]
        shape = tuple(self.sizes[name] for name in self.names[tensor])
        start, end = (0, 0, 0, position * width), (*shape[:3], (position + 1) * width)
        self.builder.apply("view", (tensor,), site=site, **dict(view_attributes(sliced(shape, start, end))))
        self.names[site] = names
        return site

    def joined(self, site: str, *inputs: str) -> str:
        """Append the copy of gradients of queries, keys and values side by side."""
        self.builder.apply("concat", inputs, site=site, axis=3)
        return self._made(site, "base", "base")

    def softmax_gradient(self, site: str, shares: str, gradient: str) -> str:
        """Append the gradient of a softmax, p (g - sum(p g)), as one fused block."""
        names = self.names[shares]
        shape = tuple(self.sizes[name] for name in names)
        dims = tuple(zip(names, shape, strict=True))
        labels, rows = tuple(names), tuple(names[:-1])

        def cell(expr: Any, *read: tuple[str, ...]) -> Any:
            return attributes(expr=expr, labels=read, dims=dims, dtype=self.dtype)

        body = (
            ("cell", cell(("mul", _X, _Y), labels, labels), (0, 1)),
            ("reduce", attributes(monoid="sum", labels=labels, output=rows), (2,)),
            ("cell", cell(("mul", _X, ("sub", _Y, _Z)), labels, labels, rows), (0, 1, 3)),
        )
        types = ((shape, self.dtype),) * 2
        self.builder.apply("fused", (shares, gradient), site=site, body=body, types=types, results=(4,))
        return self._made(site, names, self._dims())

    def _dims(self) -> list[str]:
        """Return the names of the index dimensions of the block that was appended last."""
        signature = self.builder.blocks[-1].signature
        return [dim.name for dim in signature.dims] if signature is not None else []

    def finish(self, results: Sequence[str]) -> Workload:
        for result in results:
            self.builder.sink(result)
            names = self.names[result]
            self._made(f"{result}.out", names, names)
        return Workload(self.builder.build(), Placements(self.blocks), self.mesh, MAKESPAN)


def _forward(b: LayerBuilder, again: str = "") -> None:
    """Append the layer, the names of its tensors ending in `again`."""

    def n(name: str) -> str:
        return f"{name}{again}"

    b.along_rows("layer_norm", n("n1"), "x", "scale", "bias", eps=1e-5)
    b.contract(n("qkv"), n("n1"), "wqkv", "bsh,hae->base")
    for k, part in enumerate("qkv"):
        b.third(n(part), n("qkv"), k)
    _attention(b, again)
    b.contract(n("o"), n("c"), "wo", "basd,adh->bsh")
    b.cells(n("r1"), ("add", _Z, KEPT), n("o"), "mask", "x")
    b.along_rows("layer_norm", n("n2"), n("r1"), "scale", "bias", eps=1e-5)
    b.contract(n("f1"), n("n2"), "w1", "bsh,hf->bsf")
    b.cells(n("g"), ("gelu", _X), n("f1"))
    b.contract(n("f2"), n("g"), "w2", "bsf,fh->bsh")
    b.cells(n("y"), ("add", _Z, KEPT), n("f2"), "mask", n("r1"))


def _attention(b: LayerBuilder, again: str) -> None:
    """Append the core of attention: scores, softmax, dropout and the weighted sum."""
    q, k, v, e, m, p, u, c = (f"{name}{again}" for name in "qkvempuc")
    b.contract(e, q, k, "basd,batd->bast")
    masked = ("where", ("le", ("index", "t"), ("index", "s")), ("mul", _X, ("const", 0.125)), ("const", -1e4))
    b.cells(m, masked, e)
    b.along_rows("softmax", p, m)
    b.cells(u, KEPT, p, "kept")
    b.contract(c, u, v, "bast,batd->basd")


def _backward(b: LayerBuilder, again: str) -> list[str]:
    """Append the gradients of the layer from `dy`; return those of its input and weights."""
    q, k, v, n1, n2, f1, g, r1, p, u, c = (
        f"{name}{again}" for name in ("q", "k", "v", "n1", "n2", "f1", "g", "r1", "p", "u", "c")
    )
    b.cells("df2", KEPT, "dy", "mask")
    b.contract("dw2", g, "df2", "bsf,bsh->fh")
    b.contract("dg", "df2", "w2", "bsh,fh->bsf")
    b.cells("df1", ("mul", _X, ("tanh", _Y)), "dg", f1)
    b.contract("dw1", n2, "df1", "bsh,bsf->hf")
    b.contract("dn2", "df1", "w1", "bsf,hf->bsh")
    b.cells("dr1", ("add", _Y, ("mul", _X, _Z)), "dn2", "dy", r1)
    b.cells("do", KEPT, "dr1", "mask")
    b.contract("dwo", c, "do", "basd,bsh->adh")
    b.contract("dc", "do", "wo", "bsh,adh->basd")
    b.contract("du", "dc", v, "basd,batd->bast")
    b.contract("dv", u, "dc", "bast,basd->batd")
    b.cells("dp", KEPT, "du", "kept")
    b.softmax_gradient("dm", p, "dp")
    b.cells("de", ("mul", _X, ("const", 0.125)), "dm")
    b.contract("dq", "de", k, "bast,batd->basd")
    b.contract("dk", "de", q, "bast,basd->batd")
    b.joined("dqkv", "dq", "dk", "dv")
    b.contract("dwqkv", n1, "dqkv", "bsh,base->hae")
    b.contract("dn1", "dqkv", "wqkv", "base,hae->bsh")
    b.cells("dx", ("add", _Y, ("mul", _X, _Z)), "dn1", "dr1", "x")
    return ["dx", "dw1", "dw2", "dwo", "dwqkv"]


def training_layer(question: Question, systems: Systems) -> Workload:
    """Build the workload of one layer of GPT forward and backward; with `full_recompute` it runs forward again.

    Raises:
        UnpredictedError: another kind of recomputation, or sizes or a device that are not stated or unknown.
    """
    inputs = question.inputs
    recompute = str(inputs.get("recompute", "baseline_no_recompute"))
    if recompute not in AGAIN:
        raise UnpredictedError(f"unknown recomputation {recompute!r}")
    hidden, heads, length = (whole(inputs, key) for key in ("hidden", "heads", "seq_len"))
    shared, batch = whole(inputs, "tensor_parallel"), whole(inputs, "microbatch", "batch")
    sizes = {"b": batch, "s": length, "t": length, "h": hidden, "a": heads, "f": EXPANSION * hidden}
    sizes |= {"d": hidden // heads, "e": 3 * (hidden // heads)}
    dtype = DTYPES.get(str(inputs.get("dtype", "fp16")), "float16")
    mesh = systems.joined(question, RankGroup(1, shared))
    b = LayerBuilder(mesh, sizes, dtype)
    for name, names in (("x", "bsh"), ("dy", "bsh"), ("mask", "bsh"), ("kept", "bast")):
        b.source(name, names)
    weights = (("wqkv", "hae"), ("wo", "adh"), ("w1", "hf"), ("w2", "fh"))
    for name, names in (("scale", "h"), ("bias", "h"), *weights):
        b.source(name, names, "parameter")
    _forward(b)
    if again := AGAIN[recompute]:
        _forward(b, again)
    return b.finish(["y", *_backward(b, again)])
