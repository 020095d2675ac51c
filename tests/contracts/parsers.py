"""All parsers of what comes from outside: how each is called, right inputs of it, and the errors that it documents."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import onnx
from onnx import TensorProto, helper

from tapestry.costmodel.expression_parser import ExpressionError
from tapestry.costmodel.expression_parser import parse as parse_expression
from tapestry.hardware import CatalogError, load_mesh, mesh_from_dict
from tapestry.hardware.layouts import LayoutError, parse_layout
from tapestry.hardware.layouts.dimension_order import parse_dimension_order
from tapestry.hardware.simulator.failure import parse_failure
from tapestry.hardware.tables import parsed
from tapestry.optimizer.archive.constraints import parse_constraint
from tapestry.optimizer.run.options import OPTIONS, RunOptions
from tapestry.service.cli import values
from tapestry.service.cli.errors import CommandError
from tapestry.service.cli.parser import build_parser
from tapestry.service.requests import InvalidRequest, check_request
from tapestry.service.settings import Limits
from tapestry.service.store import mesh_to_document
from tapestry.teg.decoding import DocumentError
from tapestry.teg.document import dumps, loads
from tapestry.teg.exporters.loom import to_loom
from tapestry.teg.importers import ImportFailure, from_json, from_onnx, from_stablehlo, from_torch
from tapestry.teg.importers.loom.reading import InvalidLoom
from tapestry.teg.importers.shardings.metal_file import from_metal_layouts
from tapestry.teg.importers.shardings.python_file import from_python
from tapestry.teg.importers.shardings.shardy_file import from_shardy
from tapestry.teg.importers.shardings.stated import ShardingError
from tapestry.teg.importers.shardings.table_file import from_table
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.rounds import parse_rounds
from tapestry.teg.sharding.stages import parse_stages
from tapestry.teg.sharding.text import parse_spec, parse_strategy
from tapestry.teg.strided import parse_selection
from tapestry.teg.validate import InvalidGraphError, check
from tapestry.teg.zspace import ZRange
from tests.teg.graphs import small_program
from tests.teg.importers.torch.test_files import archive, doubled, meta

Seeds = Sequence[str] | Sequence[bytes]

MODULE = """module @small {
  func.func public @main(%arg0: tensor<4x6xf32>, %arg1: tensor<6x3xf32>) -> (tensor<4x3xf32>) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0]
      : (tensor<4x6xf32>, tensor<6x3xf32>) -> tensor<4x3xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x3xf32>
    %2 = stablehlo.maximum %0, %1 : tensor<4x3xf32>
    return %2 : tensor<4x3xf32>
  }
}
"""
SHARDY = """module {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func public @main(%arg0: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>})
      -> tensor<8x16xf32> {
    return %arg0 : tensor<8x16xf32>
  }
}
"""
PYTHON = """from jax.sharding import PartitionSpec as P
AXES = {"data": 2, "model": 4}
SHARDINGS = {"w": P("data", "model"), "b": P(None)}
"""


class Parser(NamedTuple):
    """A parser: what it reads, right inputs, its documented errors, and how many of 1,000 inputs are for it."""

    name: str
    read: Callable[[Any], object]
    seeds: Seeds
    errors: tuple[type[Exception], ...]
    share: int = 20


@cache
def onnx_model() -> bytes:
    """Return a small model: a product with stored values, a sum and a relu."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [4, 6]), ("y", [4, 3])))
    w = helper.make_tensor("w", TensorProto.FLOAT, [6, 3], [0.5] * 18)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Softmax", ["p"], ["s"], axis=1),
        helper.make_node("Relu", ["s"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "small", [x], [y], [w])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def _read_file(read: Callable[[Path], object], ending: str) -> Callable[[Any], object]:
    """Build a parser of a file's content from one that takes its path."""

    def reading(content: str | bytes) -> object:
        data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        with tempfile.NamedTemporaryFile(suffix=ending) as file:
            file.write(data)
            file.flush()
            return read(Path(file.name))

    return reading


def _document(text: str) -> object:
    graph = loads(text)
    check(graph)
    return graph


def _loom(text: str) -> object:
    return from_json(text)


def _mesh_toml(text: str) -> object:
    return mesh_from_dict(parsed(text, "mesh"))


def _mesh_json(text: str) -> object:
    return mesh_from_dict(json.loads(text)) if _is_json(text) else None


def _request(text: str) -> object:
    """Check a request for a run: a JSON object of options by their names, and a mesh."""
    if not _is_json(text):
        return None
    content = json.loads(text)
    if not isinstance(content, dict):
        return None
    mesh = content.pop("mesh", "dgx-h100")
    known = {option.name for option in OPTIONS}
    options = RunOptions(**{name: value for name, value in content.items() if name in known})
    return check_request("0" * 32, mesh, options, Limits())


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _arguments(text: str) -> object:
    return build_parser().parse_known_args(text.split(" "))


LAYOUTS = [
    "f32[4,8]{1,0}",
    "bf16[16,128]{1,0:T(8,128)(2,1)}",
    "(4,(2,3)):(2,(1,8))",
    "ptr[16b] o (4,(2,3)):(2,(1,8))",
    "Sw<3,4,3> o 0 o (8,64):(64,1)",
    "#ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <8x8>, memref<4x4x!ttcore.tile<32x32, bf16>, #l1>>",
]
PT2 = json.dumps(doubled())


def _pt2(text: str) -> object:
    """Read an archive with this description of the program and right weights."""
    text = text.encode("utf-8", "replace").decode()
    with tempfile.TemporaryDirectory() as folder:
        entry = {"path_name": "weight_0", "use_pickle": False, "tensor_meta": meta((2, 3))}
        path = archive(Path(folder) / "a.pt2", entry, b"\0" * 24, text)
        return from_torch(path)


@cache
def pt2_bytes() -> bytes:
    """Return an archive of a small program."""
    with tempfile.TemporaryDirectory() as folder:
        entry = {"path_name": "weight_0", "use_pickle": False, "tensor_meta": meta((2, 3))}
        return archive(Path(folder) / "a.pt2", entry, b"\0" * 24).read_bytes()


TABLE = json.dumps(
    {
        "format": "tapestry.shardings",
        "version": 1,
        "mesh": {"axes": [{"name": "x", "size": 2}, {"name": "y", "size": 4}]},
        "tensors": [{"name": "w", "dims": [{"axes": ["x"]}, {"axes": ["y"], "granule": 2}]}],
    }
)
METAL = """// mesh of x=2, y=4
// w: float32[8, 16] over [x, y]
tensor<8x16xf32, #tt.metal_layout<(d0, d1) -> (d0, d1), undef, <2x4>, memref<4x4xf32, #l1>>>
"""
LOOM = json.dumps(to_loom(small_program()))
MESH_TOML = """name = "pair"
device = "h100-sxm5-80gb"

[[axes]]
name = "gpu"
size = 2
bandwidth_bytes_per_s = 450e9
latency_s = 2e-6
topology = "switch"

[axes.sources]
size = "made up"
topology = "made up"
bandwidth_bytes_per_s = "made up"
latency_s = "made up"
"""
OPTIONS_JSON = json.dumps(
    {
        "mesh": "dgx-h100",
        "objectives": ["time_s", "peak_memory_bytes", "energy_j * time_s"],
        "constraints": ["peak_memory_bytes <= 8 GiB", "time_s <= 110 %"],
        "seconds": 2.0,
        "evaluations": 1000,
        "seed": 7,
        "islands": 2,
        "rules": ["fuse_cells"],
        "pins": {"y": "[gpu.0, -]"},
        "compute_dtype": "bf16",
        "micro_batches": 4,
    }
)
MESH_SHAPE = MeshShape.of(node=2, gpu=4)
VALUE = (ValueError,)

PARSERS: tuple[Parser, ...] = (
    Parser("TEG JSON", _document, [dumps(small_program())], (DocumentError, InvalidGraphError), 60),
    Parser("loom", _loom, [LOOM], (InvalidLoom, DocumentError, InvalidGraphError, ImportFailure), 20),
    Parser("ONNX", from_onnx, [onnx_model()], (ImportFailure, InvalidGraphError), 15),
    Parser("StableHLO", from_stablehlo, [MODULE], (ImportFailure, InvalidGraphError), 10),
    Parser("program of a .pt2 file", _pt2, [PT2], (ImportFailure, InvalidGraphError), 15),
    Parser(
        ".pt2 file", _read_file(from_torch, ".pt2"), [pt2_bytes()], (ImportFailure, InvalidGraphError), 10
    ),
    Parser("mesh file", _mesh_toml, [MESH_TOML], (CatalogError,), 40),
    Parser(
        "mesh of a request",
        _mesh_json,
        [json.dumps(mesh_to_document(load_mesh("dgx-h100")))],
        (CatalogError,),
        40,
    ),
    Parser("options of a request", _request, [OPTIONS_JSON], (InvalidRequest, TypeError), 60),
    Parser("spec", parse_spec, ["[gpu.0, -, gpu.1.gpu.2]", "(-, gpu.0, -)", "[gpu.0, -] +gpu.1"], VALUE, 60),
    Parser("strategy", parse_strategy, ["(gpu.0, -, gpu.1.gpu.2)", "(-, -)", "()"], VALUE, 60),
    Parser("rounds", parse_rounds, ["4 x x, y[8]", ""], VALUE),
    Parser("stages", parse_stages, ["2 x 1f1b", "2 x f0 f1 b0 b1 | f0 b0 f1 b1", ""], VALUE),
    Parser("range", ZRange.parse, ["zr[2:4, -1:5]", "zr[]", "zr[0:1]"], VALUE, 40),
    Parser("selection", parse_selection, ["t[0:3, 5, 0::2]", "[::, 1]", "t[...]"], VALUE, 60),
    Parser(
        "expression",
        parse_expression,
        ["energy_j * time_s", "max(a, b) / (1 + c)", "-2e-3 * x ** 2"],
        (ExpressionError,),
        60,
    ),
    Parser(
        "constraint",
        parse_constraint,
        ["peak_memory_bytes <= 8 GiB", "time_s<=110%", "energy_j * time_s <= 3"],
        VALUE,
        60,
    ),
    Parser("layout", parse_layout, LAYOUTS, (LayoutError,), 100),
    Parser(
        "dimension order",
        lambda text: parse_dimension_order(text, 3),
        ["{2,1,0}", "{0,2,1}", ""],
        (LayoutError,),
        20,
    ),
    Parser(
        "failure", lambda text: parse_failure(text, MESH_SHAPE), ["gpu:3@0.4", "node:1,gpu:0@0.4"], VALUE, 30
    ),
    Parser("shardings in Python", from_python, [PYTHON], (ShardingError,), 30),
    Parser(
        "shardings in a table",
        from_table,
        [TABLE],
        (ShardingError,),
        30,
    ),
    Parser("shardings of tt-metal", from_metal_layouts, [METAL], (ShardingError,), 20),
    Parser("shardings of Shardy", from_shardy, [SHARDY], (ShardingError, ImportFailure), 10),
    Parser(
        "command line",
        _arguments,
        [
            "optimize model.onnx --mesh dgx-h100 --seconds 5 --objective time_s --constraint time_s<=5ms",
            "tune BATCH.toml --json",
            "explain 0123 --marginal",
            "serve --port 8000 --host 127.0.0.1 --islands 2",
            "gc --older-than 30d --keep-size 10GB --dry-run",
            "backup copies --every 1d --keep 7",
            "keys add ci --scope submit --expires 90d",
            "layout f32[4,8]{1,0} --at 1,2",
        ],
        (CommandError,),
        15,
    ),
    *(
        Parser(f"value: {name}", read, seeds, (argparse.ArgumentTypeError,), 20)
        for name, read, seeds in (
            ("whole", values.whole(0), ["7", "-1", str(2**70)]),
            ("number", values.number, ["1.5", "1e9", "nan"]),
            ("duration", values.duration, ["1.5", "inf"]),
            ("age", values.age, ["30d", "1.5h"]),
            ("size", values.size, ["10GB", "4GiB", "1 KB"]),
            ("dimension", values.dimension, ["batch=8"]),
            ("assignment", values.assignment, ["x=batch_7"]),
            ("coordinates", values.coordinates, ["2,3", ""]),
            ("names", values.names, ["a,b(c,d)", "'a,b',c"]),
        )
    ),
)
