"""Adapters for views of storage, selectors and small expressions: each is written as a program and computed."""

from collections.abc import Callable

import numpy as np

from tapestry.teg.builder import define
from tapestry.teg.graph import TensorType, attributes
from tapestry.teg.programs.handle import Handle
from tapestry.teg.programs.joining import interleave
from tapestry.teg.programs.program import Program, program
from tapestry.teg.programs.text import compute
from tapestry.teg.pullback import pull_back_block
from tapestry.teg.strided import StridedView, parse_selection
from tapestry.teg.zspace import ZRange
from tests.vectors.runner import Adapter, Values


def seen(v: Values) -> StridedView:
    return StridedView(v.get("offset", 0), tuple(v["shape"]), tuple(v["strides"]))


def plain(view: StridedView) -> Values:
    return {"offset": view.offset, "shape": view.shape, "strides": view.strides}


def computed(build: Callable[[Program], Handle]) -> np.ndarray:
    with program("case") as p:
        p.output("result", build(p))
    return p.evaluate()["result"]


def strided_view(v: Values, requested: Values) -> Values:
    view, data = seen(v), v["data"]
    lookups = [
        {"coords": q["coords"], "value": data[view.position(tuple(q["coords"]))]}
        for q in requested.get("lookups", ())
    ]
    return {"lookups": lookups, "full": view.read(data).tolist()}


def concatenated(v: Values, requested: Values) -> Values:
    coords = tuple(requested["lookup"]["coords"])
    point = ZRange(coords, tuple(c + 1 for c in coords))
    inputs = [TensorType(tuple(shape), "float32") for shape in v["shapes"]]
    definition, (whole,) = define("concat", attributes(axis=v["dim"]), inputs)
    read = enumerate(pull_back_block(definition, inputs, point))
    ((source, box),) = ((k, box) for k, box in read if not box.is_empty)
    return {"shape": whole.shape, "lookup": {"coords": coords, "source": source, "source_coords": box.start}}


def padded(v: Values, _: Values) -> Values:
    mode = {"constant0": "constant"}.get(v["mode"], v["mode"])
    width = {v.get("dim", 0): (v["before"], v["after"])}
    made = computed(lambda p: p.constant("x", np.array(v["input"])).pad(width, mode=mode))
    return {"result": made.tolist()}


def reduced(v: Values, _: Values) -> Values:
    with program("case") as p:
        made = getattr(p.input("x", *v["shape"]), v["op"])(v["dim"])
    return {"shape": made.shape}


def broadcast_shape(v: Values, _: Values) -> Values:
    with program("case") as p:
        x, w = (p.input(name, *v[name]).unsqueeze(v[f"{name}_unsqueeze"]) for name in "xw")
        made = x * w
    return {"x_shape": x.shape, "w_shape": w.shape, "prod_shape": made.shape}


def index_tensor(v: Values, requested: Values) -> Values:
    index = computed(lambda p: p.coordinates(*v["shape"]).transpose(-1, *range(len(v["shape"]))))
    slices = {
        key: index[int(key.removeprefix("dim").split("_")[0])].tolist() for key in requested.get("slices", {})
    }
    return {"index_shape": index.shape, "slices": slices}


SELECTORS: dict[str, Adapter] = {
    "strided_view": strided_view,
    "reverse_view": lambda v, _: plain(seen(v).reverse(v["dim"])),
    "transpose_view": lambda v, _: plain(seen(v).permute(v.get("permutation"))),
    "select_view": lambda v, _: plain(
        StridedView.contiguous(v["shape"]).select(parse_selection(v["selector"]))
    ),
    "selector_concat": concatenated,
    "selector_interleave": lambda v, _: {
        "result": computed(
            lambda p: interleave(
                [p.constant(f"x{k}", np.array(x)) for k, x in enumerate(v["inputs"])], v["dim"]
            )
        ).tolist()
    },
    "selector_repeat": lambda v, _: {
        "result": computed(
            lambda p: p.constant("x", np.array(v["input"])).repeat(v["dim"], v["times"])
        ).tolist()
    },
    "selector_pad": padded,
    "reduce": reduced,
    "broadcast_shape": broadcast_shape,
    "index_tensor": index_tensor,
    "tensor_expr": lambda v, _: {"value": compute(v["expr"]).tolist()},
}
