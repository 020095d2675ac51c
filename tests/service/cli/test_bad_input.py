"""Tests that any wrong input of a user gives one line, exit code 2, and nothing half-written."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.service.conftest import Run, complaint

MODEL = Path(__file__).resolve().parents[3] / "examples" / "models" / "gpt2_small_b1_s1024.onnx"
OPTIMIZE = ("optimize", "--mesh", "dgx-h100", "--evaluations", 50, "--islands", 1, "--quiet")


def write_relu(path: Path, shape: list[int | str], operator: str = "Relu") -> Path:
    graph = helper.make_graph(
        [helper.make_node(operator, ["x"], ["y"], name="node")],
        "relu",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize(
    "command", [OPTIMIZE, ("import",), ("simulate", "--mesh", "dgx-h100")], ids=lambda c: c[0]
)
def test_files_that_are_no_program(tapestry: Run, tmp_path: Path, command: tuple[object, ...]) -> None:
    content = MODEL.read_bytes()
    wrong: dict[str, tuple[bytes, str]] = {
        "empty.onnx": (b"", "is empty"),
        "letter.onnx": (b"a letter to my aunt\n" * 9, "not an ONNX model"),
        "cut.onnx": (content[: len(content) // 2], "truncated"),
        "empty.json": (b"", "no JSON"),
        "other.json": (b'{"nodes": []}', "no TEG document"),
        "list.json": (b"[1, 2]", "no TEG document"),
        "number.json": (b"7", "no TEG document"),
        "cut.json": (b'{"teg": 1, "name": "x"', "no JSON"),
        "binary.json": (bytes(range(256)), "UTF-8"),
        "broken.json.gz": (b"not gzip", "broken gzip"),
        "cut.json.gz": (gzip.compress(b"{}" * 1000)[:20], "broken gzip"),
        "model.pt2": (b"PK", "not a .pt2 archive"),
        "model.pt": (b"PK", "expected a file ending in"),
    }
    for name, (text, message) in wrong.items():
        path = tmp_path / name
        path.write_bytes(text)
        assert message in complaint(tapestry(*command, path)), name
    assert "there is no file" in complaint(tapestry(*command, tmp_path / "absent.onnx"))
    assert "is a folder" in complaint(tapestry(*command, tmp_path))


def test_an_unsupported_operator(tapestry: Run, tmp_path: Path) -> None:
    path = write_relu(tmp_path / "model.onnx", [2, 2], "SequenceConstruct")
    assert "(SequenceConstruct) makes a sequence, not a tensor" in complaint(tapestry(*OPTIMIZE, path))


def test_data_in_other_files_is_read_from_a_named_folder_only(tapestry: Run, tmp_path: Path) -> None:
    path = write_relu(tmp_path / "model.onnx", [2, 2], "Relu")
    model = onnx.load(path)
    model.graph.node[0].CopyFrom(helper.make_node("Add", ["x", "w"], ["y"]))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.eye(2, dtype=np.float32), "w"))
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)

    reported = complaint(tapestry("import", path))
    assert f"it lies beside the model: give its folder, external_data='{tmp_path}'" in reported
    assert f"--external-data {tmp_path}; or put the data" in reported
    assert "there is no folder" in complaint(tapestry("import", path, "--external-data", tmp_path / "absent"))
    found = tapestry("import", path, "--external-data", tmp_path, "--json").json
    assert [s["site"] for s in found["sources"]] == ["x", "w"]


def test_a_dynamic_dimension_says_how_to_give_its_size(tapestry: Run, tmp_path: Path) -> None:
    path = write_relu(tmp_path / "model.onnx", ["batch", 4])
    assert "--dim batch=" in complaint(tapestry("import", path))
    assert tapestry("import", path, "--dim", "batch=8", "--json").json["sources"][0]["shape"] == [8, 4]


@pytest.mark.parametrize(
    "text", ["batch", "batch=", "=8", "batch=0", "batch=-1", "batch=x", "batch=1.5", "batch=²"]
)
def test_dimensions_of_another_form(tapestry: Run, document: Path, text: str) -> None:
    assert "expected NAME=SIZE" in complaint(tapestry("import", document, f"--dim={text}"))


def test_a_document_has_no_dynamic_dimensions(tapestry: Run, document: Path) -> None:
    assert "dims (--dim) are for ONNX and PyTorch files" in complaint(
        tapestry("import", document, "--dim", "batch=8")
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--seconds", "-1"), "a number above 0"),
        (("--seconds", "0"), "a number above 0"),
        (("--seconds", "nan"), "a number above 0"),
        (("--seconds", "inf"), "a number above 0"),
        (("--seconds", "ten"), "a number above 0"),
        (("--evaluations", "0"), "from 1 to 2**63 - 1"),
        (("--evaluations", "1e6"), "from 1 to 2**63 - 1"),
        (("--seed", "-1"), "from 0 to"),
        (("--seed", "99999999999999999999"), "from 0 to"),
        (("--islands", "0"), "from 1 to 256"),
        (("--islands", "1000"), "from 1 to 256"),
        (("--verify", "maybe"), "argument --verify: expected one of auto, none, dry, execute, not 'maybe'"),
        (("--mesh", "dgx-h10"), "dgx-h100"),
        (("--mesh", "absent.toml"), "cannot read"),
        (("--objectives", "time"), "time_s"),
        (("--objectives", "time_s,time_s"), "twice"),
        (("--objectives", "time_s,,energy_j"), "commas"),
        (("--constraint", "peak_memory_bytes"), "is not of the form"),
        (("--constraint", "peak_memory<=1GiB"), "peak_memory_bytes"),
        (("--constraint", "peak_memory_bytes<=1GiBs"), "known units"),
        (("--constraint", "peak_memory_bytes<=1.2.3GiB"), "not a number"),
        (
            ("--gap", "half"),
            "argument --gap: expected a number from 0 to 1, not 'half'; write 0.005 or '0.5%'",
        ),
        (("--gap", "nan"), "argument --gap: expected a number from 0 to 1, not nan"),
        (("--gap", "101%"), "argument --gap: expected a number from 0 to 1, not 1.01"),
        (("--worth", "time_s"), "expected OBJECTIVE=MONEY such as 'time_s=120usd/s', not 'time_s'"),
        (
            ("--worth", "time_s=120usd/h"),
            "argument --worth: time_s is in s, not 'h' as in '120usd/h'; known units",
        ),
        (("--worth", "time_s=nanusd/s"), "argument --worth: expected an amount above 0, not nan"),
        (("--worth", "price_usd=1usd"), "argument --worth: price_usd is no objective of this run"),
        (("--search-price", "0"), "argument --search-price: expected a number above 0, not 0"),
        (("--pin", "y"), "expected SITE=SPEC such as 'linear=[gpu.0*gpu.1*gpu.2, -]'"),
        (("--pin", "nonesuch=[gpu.0, -]"), "no block"),
        (("--pin", "y=gpu"), "spec 'gpu'"),
        (("--pin", "y=[gpu.7, -]"), "pin"),
        (("--rules", "fuse_cell"), "fuse_cells"),
        (("--compute-dtype", "fp7"), "fp7"),
        (("--database-url", "nowhere"), "database URL"),
        (("--database-url", "sqlite:////dev/null/store.db"), "cannot make its folder"),
    ],
    ids=lambda value: "".join(value) if isinstance(value, tuple) else None,
)
def test_options_that_are_wrong(
    tapestry: Run, document: Path, options: tuple[str, ...], message: str
) -> None:
    assert message in complaint(tapestry(*OPTIMIZE, document, *options))
    assert tapestry("show", "--json").json == {"runs": []}


def test_an_infeasible_request_says_what_is_missing(tapestry: Run, document: Path) -> None:
    message = complaint(tapestry(*OPTIMIZE, document, "--constraint", "peak_memory_bytes<=1KiB"))
    assert "no plan satisfies peak memory <= 1.000 KiB: the nearest plan needs " in message
    assert tapestry("show", "--json").json == {"runs": []}


def test_a_device_without_figures_refuses_the_objective(
    tapestry: Run, document: Path, tmp_path: Path
) -> None:
    listed = tapestry("meshes", "--json").json["meshes"]
    mesh = next(m for m in listed if m["name"] == "dgx-h100")
    lines = [f'name = "mine"\ndevice = "{mesh["device"]["name"]}"\n[[axes]]']
    lines += [
        f"{k} = {json.dumps(v)}" for k, v in mesh["axes"][0].items() if k not in ("collectives", "sources")
    ]
    path = tmp_path / "mine.toml"
    path.write_text("\n".join(lines))
    assert tapestry(*OPTIMIZE, document, "--mesh", path, "--json").json["mesh"] == "mine"
    path.write_text("\n".join([*lines, "speed = 3"]))
    assert "speed: unknown key" in complaint(tapestry(*OPTIMIZE, document, "--mesh", path))


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("simulate",), "give a GRAPH and a --mesh"),
        (("simulate", "--plan", "nonesuch"), "there is no plan"),
        (("simulate", "--run", "nonesuch"), "there is no run"),
        (("simulate", "--plan", "x", "--mesh", "dgx-h100"), "leave --mesh out"),
        (("simulate", "--plan", "x", "--trace", "trace.txt"), "ending in .json"),
        (("simulate", "--plan", "x", "--trace", "/nonesuch/trace.json"), "does not exist"),
        (("show", "nonesuch"), "no run and no plan"),
        (("show", "nonesuch/x"), "there is no run"),
        (("demo", "--seconds", "-1"), "a number above 0"),
        (("demo", "--database-url", "nowhere"), "database URL"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_names_of_nothing(tapestry: Run, argv: tuple[str, ...], message: str) -> None:
    assert message in complaint(tapestry(*argv))


@pytest.mark.parametrize("name", ["out.txt", "absent/out.json"])
def test_outputs_that_cannot_be_written(tapestry: Run, document: Path, tmp_path: Path, name: str) -> None:
    assert "cannot write" in complaint(tapestry("import", document, "-o", tmp_path / name))
    assert sorted(path.name for path in tmp_path.iterdir()) == [document.name]
