"""Random programs, random placements and made-up meshes for the tests of the simulator."""

from collections.abc import Sequence

import numpy as np

from tapestry.hardware.catalog import load_device
from tapestry.hardware.mesh import Mesh, MeshAxis
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.graph import Graph
from tapestry.teg.operators.selectors import broadcast, permuted, reversed_along, sliced, view_attributes
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.spec import WHOLE, Split
from tapestry.teg.sharding.strategy import Strategy, splittable
from tapestry.teg.signature import PARALLEL, Signature
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
    MeshShape.of(pod=2, node=2, gpu=2),
)


def machine(mesh_shape: MeshShape, device: str = "h100-sxm5-80gb") -> Mesh:
    """Build a mesh of catalog devices with links ten times slower on each slower axis."""
    axes = [
        MeshAxis(name, size, "switch", 1e11 / 10**k, 1e-6 * 10**k)
        for k, (name, size) in enumerate(reversed(mesh_shape.axes))
    ]
    return Mesh("made up", load_device(device), tuple(reversed(axes)))


def random_program(rng: np.random.Generator, steps: int = 8, *, state: bool = False) -> Graph:
    """Build a random program over tensors `[n, c, l]`, drawing its steps from every family of operators.

    With `state`, its input and some of its parameters have next values.
    """
    b = GraphBuilder("random")
    shape = [int(rng.integers(1, 5)), int(rng.integers(3, 10)), int(rng.integers(5, 14))]
    tensors = [b.source("x", shape, "float64")]
    for k in range(steps):
        tensor = tensors[int(rng.integers(max(0, len(tensors) - 3), len(tensors)))]
        tensors.append(GROWTH[int(rng.integers(len(GROWTH)))](b, rng, tensor, f"s{k}"))
    read = {t for block in b.blocks for t in block.inputs}
    for tensor in tensors:
        if tensor not in read:
            b.sink(tensor, site=f"see {tensor}")
    if state:
        _updated(b, rng, tensors)
    return b.build()


def _updated(b: GraphBuilder, rng: np.random.Generator, tensors: Sequence[str]) -> None:
    """Add next values of sources: computed, viewed, or another tensor of the same type."""
    for source in [s.outputs[0] for s in b.blocks if s.operator == "source" and s.site[-1] != "i"]:
        shape = b.tensors[source].shape
        alike = [t for t in tensors if t != source and b.tensors[t].shape == shape]
        choice = rng.random()
        if choice < 0.4:
            new = cell(b, f"{source}.new", ("mul", ("input", 0), ("const", 0.5)), (source,))
        elif choice < 0.6:
            new = view(b, f"{source}.new", source, reversed_along(shape, (int(rng.integers(len(shape))),)))
        elif alike:
            new = alike[int(rng.integers(len(alike)))]
        else:
            continue
        b.sink(new, site=f"{source}.next", carries=source)


def cell(b: GraphBuilder, site: str, expr: tuple[object, ...], tensors: Sequence[str]) -> str:
    """Add an elementwise block; dimensions of size 1 broadcast."""
    shapes = [b.tensors[t].shape for t in tensors]
    names = "nclxyz"[: len(shapes[0])]
    dims = tuple(zip(names, np.broadcast_shapes(*shapes), strict=True))
    labels = [
        tuple("" if size == 1 < full else n for (n, full), size in zip(dims, s, strict=True)) for s in shapes
    ]
    (result,) = b.apply(
        "cell", tensors, site=site, expr=expr, labels=labels, dims=dims, dtype=b.tensors[tensors[0]].dtype
    )
    return result


def view(b: GraphBuilder, site: str, tensor: str, mapping: ViewMap) -> str:
    (result,) = b.apply("view", (tensor,), site=site, **dict(view_attributes(mapping)))
    return result


def _mixed(b: GraphBuilder, rng: np.random.Generator, tensor: str, site: str) -> str:
    """Add a contraction over channels or length."""
    _, c, length = b.tensors[tensor].shape
    if rng.random() < 0.5:
        w = b.source(f"{site}.w", (c, int(rng.integers(1, 9))), "float64", "parameter")
        labels, output = (("n", "c", "l"), ("c", "o")), ("n", "o", "l")
    else:
        w = b.source(f"{site}.w", (length, int(rng.integers(4, 13))), "float64", "parameter")
        labels, output = (("n", "c", "l"), ("l", "o")), ("n", "c", "o")
    return b.apply("contract", (tensor, w), site=site, labels=labels, output=output)[0]


def _shifted(b: GraphBuilder, rng: np.random.Generator, tensor: str, site: str) -> str:
    shape = [size if rng.random() < 0.5 else 1 for size in b.tensors[tensor].shape]
    other = b.source(f"{site}.b", shape, "float64", "buffer" if rng.random() < 0.5 else "activation")
    return cell(b, site, ("add", ("mul", ("input", 0), ("const", 0.5)), ("input", 1)), (tensor, other))


def _positional(b: GraphBuilder, _: np.random.Generator, tensor: str, site: str) -> str:
    (mask,) = b.apply(
        "cell",
        (),
        site=f"{site}.m",
        expr=("cast", "float64", ("mod", ("index", "l"), ("const", 3))),
        labels=(),
        dims=(("n", 1), ("c", 1), ("l", b.tensors[tensor].shape[2])),
        dtype="float64",
    )
    return cell(b, site, ("add", ("input", 0), ("input", 1)), (tensor, mask))


def _reduced(b: GraphBuilder, rng: np.random.Generator, tensor: str, site: str) -> str:
    """Add a reduction, followed by a broadcast back to the full shape."""
    monoid = ("sum", "max", "min", "logsumexp")[int(rng.integers(4))]
    axis = int(rng.integers(3))
    kept = [name for k, name in enumerate("ncl") if k != axis]
    (small,) = b.apply(
        "reduce", (tensor,), site=f"{site}.r", monoid=monoid, labels=tuple("ncl"), output=kept, keep=(axis,)
    )
    return cell(b, site, ("tanh", ("sub", ("input", 0), ("input", 1))), (tensor, small))


def _softmax(b: GraphBuilder, rng: np.random.Generator, tensor: str, site: str) -> str:
    return b.apply("softmax", (tensor,), site=site, axes=(int(rng.integers(3)),))[0]


def _convolved(b: GraphBuilder, rng: np.random.Generator, tensor: str, site: str) -> str:
    _, c, length = b.tensors[tensor].shape
    kernel = int(rng.integers(1, min(4, length) + 1))
    w = b.source(f"{site}.w", (int(rng.integers(1, 6)), c, kernel), "float64", "parameter")
    stride = int(rng.integers(1, 3)) if length > 6 else 1
    pads = (kernel // 2, (kernel - 1) // 2)
    count = (length + sum(pads) - kernel) // stride + 1
    read = (count - 1) * stride + kernel - pads[0]
    if 0 < read < length:
        shape = b.tensors[tensor].shape
        tensor = view(b, f"{site}.crop", tensor, sliced(shape, (0, 0, 0), (*shape[:2], read)))
    return b.apply("conv", (tensor, w), site=site, strides=(stride,), pads=pads, dilations=(1,), groups=1)[0]


def _doubled(b: GraphBuilder, rng: np.random.Generator, tensor: str, site: str) -> str:
    return b.apply("concat", (tensor, tensor), site=site, axis=int(rng.integers(3)))[0]


def _viewed(b: GraphBuilder, rng: np.random.Generator, tensor: str, site: str) -> str:
    shape = b.tensors[tensor].shape
    choice = int(rng.integers(4))
    if choice == 0:
        return view(b, site, tensor, permuted(shape, [int(k) for k in rng.permutation(3)]))
    if choice == 1:
        return view(b, site, tensor, reversed_along(shape, (int(rng.integers(3)),)))
    if choice == 2:
        starts = tuple(int(rng.integers(0, (n + 1) // 2)) for n in shape)
        return view(
            b, site, tensor, sliced(shape, starts, shape, tuple(int(rng.integers(1, 3)) for _ in shape))
        )
    return view(b, site, tensor, broadcast((1, *shape[1:]), (3, *shape[1:]))) if shape[0] == 1 else tensor


def _looked_up(b: GraphBuilder, rng: np.random.Generator, tensor: str, site: str) -> str:
    """Add a gather along channels or length; its table may be split along that axis."""
    picked = b.source(f"{site}.i", (int(rng.integers(1, 5)),), "int64")
    return b.apply("gather", (tensor, picked), site=site, axis=int(rng.integers(1, 3)))[0]


def _padded(b: GraphBuilder, rng: np.random.Generator, tensor: str, site: str) -> str:
    """Add padding wide enough for shards that see nothing of the tensor."""
    low, high = (tuple(int(rng.integers(0, 4)) for _ in range(3)) for _ in range(2))
    return b.apply("pad", (tensor,), site=site, low=low, high=high, value=0.5)[0]


def _flattened(b: GraphBuilder, _: np.random.Generator, tensor: str, site: str) -> str:
    n, c, length = b.tensors[tensor].shape
    return (
        b.apply("reshape", (tensor,), site=site, shape=(1, c, n * length))[0]
        if n * c * length < 400
        else tensor
    )


GROWTH = (
    *(_mixed, _mixed, _shifted, _positional, _reduced, _reduced, _softmax),
    *(_convolved, _convolved, _doubled, _viewed, _viewed, _looked_up, _padded, _flattened),
)


def random_placements(rng: np.random.Generator, graph: Graph, mesh_shape: MeshShape) -> Placements:
    """Draw legal strategies over random sub-axes, granules, prefetch distances, regathers and boundary options."""
    blocks = {
        b.site: Placement(
            random_strategy(rng, b.signature, mesh_shape),
            tuple(int(rng.integers(0, 4)) for _ in b.inputs),
            tuple(bool(rng.random() < 0.2) for _ in b.inputs),
        )
        for b in graph.blocks
        if b.operator != "view"
    }
    return Placements(
        blocks,
        inputs="replicated" if rng.random() < 0.1 else "chosen",
        outputs="gathered" if rng.random() < 0.2 else "sharded",
    )


def random_strategy(rng: np.random.Generator, signature: Signature | None, mesh_shape: MeshShape) -> Strategy:
    if signature is None:
        return Strategy()
    free = [s.name for s in mesh_shape.sub_axes]
    allowed = splittable(signature)
    kinds = sorted({d.kind for d in signature.dims if d.kind != PARALLEL})
    kind = kinds[int(rng.integers(len(kinds)))] if kinds else None
    splits = [WHOLE] * len(signature.dims)
    for k in rng.permutation(len(signature.dims)):
        d = signature.dims[k]
        if not allowed[k] or d.kind not in (PARALLEL, kind) or not free or rng.random() < 0.3:
            continue
        taken = [str(a) for a in rng.permutation(free)[: int(rng.integers(1, len(free) + 1))]]
        free = [a for a in free if a not in taken]
        splits[k] = Split(tuple(taken), int(rng.choice([1, 1, 1, 2, 3])))
    return Strategy(tuple(splits))
