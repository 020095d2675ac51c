"""Tests of programs of torch in files, read without torch."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tapestry.teg.importers import ImportFailure, from_torch
from tapestry.teg.importers.torch_import import read_listing
from tapestry.teg.validate import validate
from tests.teg.importers.models import GRAPHS, run

DUMPS = sorted([*GRAPHS.glob("fx/*.json.gz"), *GRAPHS.glob("pt2json/*.json.gz")])
MLP = GRAPHS / "pt2json" / "mlp_784_4x4096_10_b1024.json.gz"


@pytest.mark.parametrize("path", DUMPS, ids=lambda p: f"{p.parent.name}/{p.name.partition('.')[0]}")
def test_a_dump_becomes_a_valid_graph_with_the_recorded_shapes(path: Path) -> None:
    graph = from_torch(path)
    assert validate(graph) == []
    recorded = {i.value.name: i.value.shape for i in read_listing(path).inputs}
    for source in graph.sources:
        if source.site in recorded:
            assert source.definition["logical_shape"] == recorded[source.site]


def test_a_program_without_signature_names_gradients_after_parameters() -> None:
    graph = from_torch(GRAPHS / "fx" / "train_heat_inverse_20steps_grads.json.gz")
    assert [s.site for s in graph.sinks] == ["mean", "kappa.grad"]
    assert Counter(s.definition["role"] for s in graph.sources) == {"parameter": 1, "activation": 2}


def test_torch_is_not_loaded_for_files() -> None:
    code = f"import sys; from tapestry import from_torch; from_torch({str(MLP)!r}); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def tensor(name: str) -> dict[str, Any]:
    return {"as_tensor": {"name": name}}


def meta(shape: tuple[int, ...]) -> dict[str, Any]:
    strides = [int(np.prod(shape[k + 1 :])) for k in range(len(shape))]
    sizes = ({"as_int": n} for n in shape)
    return {
        "dtype": 7,
        "sizes": list(sizes),
        "strides": [{"as_int": n} for n in strides],
        "storage_offset": {"as_int": 0},
    }


def doubled(weight_shape: tuple[int, ...] = (2, 3)) -> dict[str, Any]:
    """Build `w * x`, as torch serializes it."""
    multiply = {
        "target": "torch.ops.aten.mul.Tensor",
        "inputs": [{"name": "self", "arg": tensor("w")}, {"name": "other", "arg": tensor("x")}],
        "outputs": [tensor("mul")],
    }
    graph = {
        "inputs": [tensor("w"), tensor("x")],
        "outputs": [tensor("mul")],
        "nodes": [multiply],
        "tensor_values": {"w": meta(weight_shape), "x": meta((2, 3)), "mul": meta((2, 3))},
    }
    inputs = [
        {"parameter": {"arg": {"name": "w"}, "parameter_name": "scale"}},
        {"user_input": {"arg": tensor("x")}},
    ]
    signature = {"input_specs": inputs, "output_specs": [{"user_output": {"arg": tensor("mul")}}]}
    return {
        "graph_module": {"graph": graph, "signature": signature},
        "schema_version": {"major": 8, "minor": 20},
    }


def archive(path: Path, weights: dict[str, Any], data: bytes, program: str | None = None) -> Path:
    """Write a `.pt2` file of `doubled`, or of another program's description."""
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("m/models/model.json", json.dumps(doubled()) if program is None else program)
        file.writestr("m/byteorder", "little")
        file.writestr("m/data/weights/model_weights_config.json", json.dumps({"config": {"scale": weights}}))
        file.writestr("m/data/weights/weight_0", data)
    return path


def test_an_archive_brings_its_weights(tmp_path: Path) -> None:
    weight = np.arange(6, dtype=np.float32).reshape(2, 3)
    entry = {"path_name": "weight_0", "use_pickle": False, "tensor_meta": meta((2, 3))}
    graph = from_torch(archive(tmp_path / "scaled.pt2", entry, weight.tobytes()))
    assert (graph.name, graph.by_site["scale"].definition["role"]) == ("scaled", "parameter")
    assert run(graph, {"x": np.full((2, 3), 2, np.float32)})["mul"].tolist() == [[0, 2, 4], [6, 8, 10]]


@pytest.mark.parametrize(
    ("entry", "data", "specified"),
    [
        (
            {"path_name": "weight_0", "use_pickle": True, "tensor_meta": meta((2, 3))},
            b"\x80",
            "stored pickled",
        ),
        ({"path_name": "weight_0", "use_pickle": False, "tensor_meta": None}, b"", "stored pickled"),
        (
            {"path_name": "weight_0", "use_pickle": False, "tensor_meta": meta((2, 3))},
            b"1234",
            "needs 24 bytes",
        ),
        ({"path_name": "../../x", "use_pickle": False, "tensor_meta": meta((2, 3))}, b"", "is missing"),
    ],
)
def test_weights_that_are_pickled_or_missing_are_refused(
    tmp_path: Path, entry: dict[str, Any], data: bytes, specified: str
) -> None:
    with pytest.raises(ImportFailure, match=specified):
        from_torch(archive(tmp_path / "bad.pt2", entry, data))


def dynamic(expression: str = "s0") -> dict[str, Any]:
    document = doubled()
    values = document["graph_module"]["graph"]["tensor_values"]
    values["x"]["sizes"][0] = {"as_expr": {"expr_str": expression, "hint": {"as_int": 2}}}
    return document


def unknown() -> dict[str, Any]:
    document = doubled()
    nodes = document["graph_module"]["graph"]["nodes"]
    nodes[0]["target"] = "torch.ops.mylib.first.default"
    nodes.append({"target": "torch.ops.mylib.second.default", "inputs": [], "outputs": [], "name": "lonely"})
    return document


def changed(**values: Any) -> dict[str, Any]:
    """Build `doubled` with other tensors, or another output."""
    document = doubled()
    graph = document["graph_module"]["graph"]
    graph["tensor_values"].update({k: v for k, v in values.items() if isinstance(v, dict)})
    if "observed" in values:
        outputs = [{"user_output": {"arg": tensor(values["observed"])}}]
        document["graph_module"]["signature"]["output_specs"] = outputs
    if "again" in values:
        graph["nodes"].append(graph["nodes"][0])
    return document


@pytest.mark.parametrize(
    ("document", "specified"),
    [
        (dynamic(), r"dynamic shapes: value 'x' has a size that depends on 's0'"),
        (dynamic("__import__('os').getcwd()"), "no expression"),
        (unknown(), r"mylib\.first\.default \(node 'mul'\), mylib\.second\.default \(node 'lonely'\)"),
        (doubled((2, 4)), "does not broadcast"),
        (changed(x=meta((2**40, 2**40))), "impossible shape"),
        (changed(x=meta((2, -3))), "impossible shape"),
        (changed(mul=meta((2, 4))), "records a result of shape"),
        (changed(observed="other"), "nothing makes output 'other'"),
        (changed(again=True), "'mul' is made twice"),
        ({**doubled(), "schema_version": {"major": 99}}, "schema version 99"),
        ({"graph_module": {}, "schema_version": {"major": 8}}, "not an exported program"),
        ({"nodes": [{"op": "placeholder"}]}, "not a list of nodes"),
        ({"something": "else"}, "neither"),
        ([1, 2], "neither"),
    ],
)
def test_programs_that_cannot_come_in_say_why(tmp_path: Path, document: Any, specified: str) -> None:
    path = tmp_path / "program.json"
    path.write_text(json.dumps(document))
    with pytest.raises(ImportFailure, match=specified) as failure:
        from_torch(path)
    assert "\n" not in str(failure.value)


def test_sizes_that_are_left_open_can_be_given(tmp_path: Path) -> None:
    path = tmp_path / "open.json"
    path.write_text(json.dumps(dynamic("FloorDiv(Mul(Integer(4), Symbol('s0', integer=True)), 2) - s0")))
    assert from_torch(path, dims={"s0": 2}).by_site["x"].definition["logical_shape"] == (2, 3)
    with pytest.raises(ImportFailure, match="does not broadcast"):
        from_torch(path, dims={"s0": 5})


def test_damaged_files_are_refused_in_one_line(tmp_path: Path) -> None:
    cases = {
        "a.pt2": b"PK no zip",
        "b.json": b"{",
        "c.json.gz": b"no gzip",
        "d.json.gz": gzip.compress(b"[1")[:-3],
    }
    for name, content in cases.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ImportFailure) as failure:
            from_torch(tmp_path / name)
        assert "\n" not in str(failure.value)
    with pytest.raises(ImportFailure, match="there is no file"):
        from_torch(tmp_path / "missing.pt2")


@pytest.mark.parametrize(
    "program", ["0", "[1]", "null", '{"schema_version": 8}', '{"schema_version": {"major": "8"}}']
)
def test_a_program_that_is_no_object_with_a_version_is_refused(tmp_path: Path, program: str) -> None:
    entry = {"path_name": "weight_0", "use_pickle": False, "tensor_meta": meta((2, 3))}
    with pytest.raises(ImportFailure, match="it states no schema version"):
        from_torch(archive(tmp_path / "bad.pt2", entry, b"\0" * 24, program))


def test_a_file_without_a_name_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "bad.pt2"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(zipfile.ZipInfo("x"), "")
        file.infolist()[0].filename = ""
    with pytest.raises(ImportFailure):
        from_torch(path)
