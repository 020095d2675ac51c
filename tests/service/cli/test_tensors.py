"""Tests of the user's own values at the command line: computed with, written out, and all faults in one message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tapestry.service.store import Store
from tapestry.teg.document import save
from tapestry.teg.importers import from_onnx
from tapestry.teg.tensor_files import read_tensors, write_tensors
from tests.service.conftest import Run, complaint
from tests.service.programs import NOON, costed_run, two_layers
from tests.teg.sharding.test_external_graphs import paper

MESH = ("--mesh", "dgx-h100")


def values(width: int = 8) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    shapes = {"x": (width, width), "up": (width, 4 * width), "down": (4 * width, width)}
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def expected(given: dict[str, np.ndarray]) -> np.ndarray:
    result: np.ndarray = np.maximum(given["x"] @ given["up"], 0) @ given["down"]
    return result


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Save a small program in an otherwise empty folder and go there."""
    monkeypatch.chdir(tmp_path)
    save(two_layers(width=8), tmp_path / "program.json")
    return tmp_path / "program.json"


@pytest.mark.parametrize("outputs", ["out.npz", "out.safetensors", "out.npy"])
def test_own_values_go_in_and_the_outputs_come_out(tapestry: Run, program: Path, outputs: str) -> None:
    given = values()
    write_tensors("x.npy", {"x": given["x"]})
    write_tensors("w.safetensors", {name: given[name] for name in ("up", "down")})
    answer = tapestry(
        *("simulate", program, *MESH, "--inputs", "x.npy", "--weights", "w.safetensors"),
        *("--outputs", outputs, "--json"),
    )
    assert answer.code == 0, answer.err
    assert (answer.json["backend"], answer.json["seed"]) == ("numpy", None)
    assert answer.json["verified"]["values"]["ok"] is True
    ((name, found),) = read_tensors(outputs).items()
    assert name == ("out" if outputs == "out.npy" else "result")
    np.testing.assert_allclose(found, expected(given), rtol=1e-5)


def test_inputs_and_weights_may_be_one_file_and_extra_names_are_a_warning(
    tapestry: Run, program: Path
) -> None:
    write_tensors("all.npz", {**values(), "dwon": np.zeros(2)})
    answer = tapestry(
        "simulate", program, *MESH, "--inputs", "all.npz", "--weights", "all.npz", "--outputs", "o.npz"
    )
    assert answer.code == 0
    assert answer.err == "tapestry: not read: there is no input 'dwon'; did you mean down?\n"
    np.testing.assert_allclose(read_tensors("o.npz")["result"], expected(values()), rtol=1e-5)


def test_all_faults_of_given_values_are_listed_and_nothing_is_written(tapestry: Run, program: Path) -> None:
    write_tensors(
        "bad.npz", {"x": np.zeros((8, 9), np.float32), "up": np.zeros((8, 32)), "Down": np.zeros(1)}
    )
    text = complaint(tapestry("simulate", program, *MESH, "--inputs", "bad.npz", "--outputs", "o.npz"))
    assert "input 'x' must have shape (8, 8) and type float32, not shape (8, 9) and type float32" in text
    assert "input 'up' must have shape (8, 32) and type float32, not shape (8, 32) and type float64" in text
    assert "input 'down' of shape (32, 8) and type float32 is missing" in text
    assert "there is no input 'Down'; did you mean down?" in text
    assert not Path("o.npz").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--inputs", "none.npz"), "there is no file 'none.npz'"),
        (("--inputs", "program.json"), "expected a file ending in .npz, .npy, .safetensors"),
        (("--inputs", "x.npz", "--weights", "also.npz"), "--inputs and --weights both give 'x'"),
        (("--outputs", "none/o.npz"), "its folder does not exist"),
        (("--outputs", "o.txt"), "expected a file ending in .npz"),
        (("--inputs", "x.npz", "--outputs", "x.npz"), "--inputs and --outputs both name 'x.npz'"),
        (("--inputs", "x.npz", "--dry"), "--dry computes no values"),
        (("--inputs", "damaged.safetensors"), "'damaged.safetensors' cannot be read: it has 3 bytes"),
    ],
)
def test_files_that_do_not_fit_are_one_message(
    tapestry: Run, program: Path, options: tuple[str, ...], message: str
) -> None:
    for name in ("x.npz", "also.npz"):
        write_tensors(name, {"x": np.zeros(1)})
    Path("damaged.safetensors").write_bytes(b"abc")
    assert message in complaint(tapestry("simulate", program, *MESH, *options))


def test_a_stored_plan_takes_own_values_by_its_id_alone(tapestry: Run, home: Path, tmp_path: Path) -> None:
    store = Store(f"sqlite:///{home / 'tapestry.db'}")
    run_id = store.runs.save_finished(costed_run(two_layers(width=8)))
    plan = store.runs.find(run_id).frontier[0]
    write_tensors(tmp_path / "in.npz", values())
    answer = tapestry(
        *("simulate", f"{run_id}/{plan.id}", "--inputs", tmp_path / "in.npz"),
        *("--outputs", tmp_path / "out.npz", "--json"),
    )
    assert answer.code == 0, answer.err
    assert answer.json["verified"]["values"]["ok"] is True
    np.testing.assert_allclose(read_tensors(tmp_path / "out.npz")["result"], expected(values()), rtol=1e-5)
    stored = store.executions.of_plan(plan.key)[-1]
    assert (stored.values, stored.seed, stored.created_at > NOON) == (True, None, True)
    assert sorted(stored.request.given) == ["down", "up", "x"]


def heads(path: Path) -> onnx.ModelProto:
    """Save a program whose weight is factored by heads, and whose initializer is the user's."""
    weight = numpy_helper.from_array(np.zeros((4, 12), np.float32), "attn.weight")
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "attn.weight"], ["qkv"]),
            helper.make_node("Reshape", ["qkv", "shape"], ["split"]),
            helper.make_node("Softmax", ["split"], ["seen"], axis=1),
        ],
        "heads",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 4))],
        [helper.make_tensor_value_info("seen", TensorProto.FLOAT, (2, 3, 4))],
        [weight, numpy_helper.from_array(np.array([2, 3, 4]), "shape")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(model, path)
    return model


def test_a_factored_weight_is_given_in_the_shape_that_the_user_knows(tapestry: Run, tmp_path: Path) -> None:
    model = heads(tmp_path / "heads.onnx")
    (weight,) = [
        s for s in from_onnx(tmp_path / "heads.onnx").sources if s.definition.get("role") == "parameter"
    ]
    assert weight.definition.get("logical_shape") == (4, 12) != weight.definition.get("shape")
    rng = np.random.default_rng(2)
    given = {
        "x": rng.standard_normal((2, 4)).astype(np.float32),
        "attn.weight": rng.standard_normal((4, 12)).astype(np.float32),
    }
    write_tensors(tmp_path / "in.safetensors", given)
    answer = tapestry(
        *("simulate", tmp_path / "heads.onnx", *MESH, "--inputs", tmp_path / "in.safetensors"),
        *("--outputs", tmp_path / "out.npz"),
    )
    assert answer.code == 0, answer.err
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(given["attn.weight"], "attn.weight"))
    (reference,) = ReferenceEvaluator(model).run(None, {"x": given["x"]})
    ((name, found),) = read_tensors(tmp_path / "out.npz").items()
    assert (name, found.shape) == ("seen", (2, 3, 4))
    np.testing.assert_allclose(found, reference, rtol=1e-5)


def test_a_sharded_program_takes_the_whole_values_of_what_it_shards(tapestry: Run, tmp_path: Path) -> None:
    save(paper(concat=False), tmp_path / "sharded.json")
    parts = {name: np.full((2, 3), float(name[1]), np.float32) for name in ("A1", "A2")}
    write_tensors(tmp_path / "in.npz", {**parts, "B": np.ones((4, 3), np.float32)})
    answer = tapestry(
        *("simulate", tmp_path / "sharded.json", *MESH, "--inputs", tmp_path / "in.npz"),
        *("--outputs", tmp_path / "out.npz"),
    )
    assert answer.code == 0, answer.err
    np.testing.assert_array_equal(
        read_tensors(tmp_path / "out.npz")["Sink"], [[2.0] * 3] * 2 + [[3.0] * 3] * 2
    )


def shown(tapestry: Run, *arguments: object) -> list[dict[str, Any]]:
    answer = tapestry("tensors", *arguments, "--json")
    assert answer.code == 0, answer.err
    items: list[dict[str, Any]] = answer.json["items"]
    return items


def test_tensors_are_loaded_listed_copied_exported_and_dropped(tapestry: Run, program: Path) -> None:
    write_tensors("w.npz", {"h.0/up": values()["up"], "down": values()["down"]})
    text = complaint(tapestry("tensors", "load", "w.npz"))
    assert text.startswith("'w.npz': 'h.0/up' is no name of a stored tensor: 1 to 200 letters")
    loaded = shown(tapestry, "load", "w.npz", "up=h.0/up", "down")
    assert [(t["name"], t["shape"], t["place"]) for t in loaded] == [
        ("up", [8, 32], None),
        ("down", [32, 8], None),
    ]
    assert [t["name"] for t in shown(tapestry, "copy", "up", "up.before")] == ["up.before"]
    assert [t["name"] for t in shown(tapestry, "list")] == ["down", "up", "up.before"]
    lines = tapestry("tensors", "list").out.splitlines()
    assert lines[0].split() == ["name", "type", "shape", "size", "mesh", "spec"]
    assert lines[-3].split() == ["down", "float32", "32x8", "1.000", "KiB", "-", "-"]
    shown(tapestry, "export", "two.safetensors", "up", "down")
    found = read_tensors("two.safetensors")
    np.testing.assert_array_equal(found["up"], values()["up"])
    np.testing.assert_array_equal(found["down"], values()["down"])
    assert shown(tapestry, "drop", "up", "up.before") == []
    noted = [(line["action"], line["subject"]) for line in tapestry("audit", "--json").json["items"]]
    assert noted == [("drop tensor", "up.before"), ("drop tensor", "up")]
    assert [t["name"] for t in shown(tapestry, "list")] == ["down"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("drop", "down", "dwon"), "there is no tensor 'dwon'; did you mean down?"),
        (("copy", "none", "new"), "there is no tensor 'none'"),
        (("copy", "down", "a/b"), "'a/b' is no name of a stored tensor"),
        (("export", "o.npz", "none"), "there is no tensor 'none'"),
        (("export", "o.txt", "down"), "expected a file ending in .npz"),
        (("load", "w.npz", "x=y"), "'w.npz': there is no tensor 'y'; known are down"),
        (("load", "none.npz"), "there is no file 'none.npz'"),
        (("load", "w.npz", "=y"), "expected NAME or NAME=TENSOR such as up=h.0.weight, not '=y'"),
        (("load", "short.npz"), "'x' has plain bytes for elements, without a type; take .safetensors"),
    ],
)
def test_a_wrong_name_changes_nothing(
    tapestry: Run, program: Path, arguments: tuple[str, ...], message: str
) -> None:
    write_tensors("w.npz", {"down": values()["down"]})
    write_tensors("short.npz", {"x": np.zeros(2, "V2")})
    shown(tapestry, "load", "w.npz")
    assert message in complaint(tapestry("tensors", *arguments))
    assert [t["name"] for t in shown(tapestry, "list")] == ["down"]
    assert not Path("o.npz").exists()


def test_loading_to_a_device_is_charged_to_the_execution(tapestry: Run, program: Path) -> None:
    """Check 256 bytes that take two seconds, and another at the rate, and go from one device to the seven others."""
    write_tensors("x.npz", {"x": values()["x"]})
    write_tensors("w.npz", {name: array for name, array in values().items() if name != "x"})
    rate = ("--seconds", 2, "--bytes-per-s", 256, "--device", "gpu:3")
    (stored,) = tapestry("tensors", "load", "x.npz", *rate, "--json").json["items"]
    assert stored["load"] == {"seconds": 2.0, "bytes_per_s": 256.0, "device": "gpu:3"}
    assert "loaded to gpu:3" in tapestry("tensors", "list").out
    given = ("simulate", program, *MESH, "--tensor", "x=x", "--weights", "w.npz")
    moves = tapestry(*given, "--json").json["counts"]["moves"]
    assert (moves["traffic_bytes"], moves["loaded_bytes"]) == (7 * 256, 256)
    assert moves["time_s"] == pytest.approx(3.0, rel=1e-3)
    tapestry("tensors", "load", "x.npz", "--device", "gpu:8")
    assert "device 'gpu:8' is none of mesh 'dgx-h100'" in complaint(tapestry(*given))
    refused = complaint(tapestry("tensors", "load", "x.npz", "--seconds", -1, "--bytes-per-s", 0))
    assert "seconds: expected a number of at least 0" in refused and "bytes_per_s: expected" in refused


def test_a_name_goes_from_one_program_into_the_next(tapestry: Run, program: Path) -> None:
    """Check that nothing moves: the output of a run, and the input of the next, lie whole on every device."""
    write_tensors("all.npz", values())
    first = tapestry("simulate", program, *MESH, "--inputs", "all.npz", "--save", "result=y")
    assert first.code == 0, first.err
    (saved,) = shown(tapestry, "list")
    assert (saved["place"]["mesh"], saved["place"]["spec"]) == ("dgx-h100", "[-, -]")
    weights = {name: array for name, array in values().items() if name != "x"}
    write_tensors("w.npz", weights)
    again = tapestry(
        *("simulate", program, *MESH, "--tensor", "x=y", "--weights", "w.npz"),
        *("--outputs", "o.npz", "--json"),
    )
    assert again.code == 0, again.err
    moves = again.json["counts"]["moves"]
    assert [(m["input"], m["name"], m["kind"]) for m in moves["tensors"]] == [("x", "y", "none")]
    assert (moves["traffic_bytes"], moves["time_s"]) == (0, 0)
    np.testing.assert_allclose(
        read_tensors("o.npz")["result"], expected({**values(), "x": expected(values())}), rtol=1e-4
    )
    text = tapestry("simulate", program, *MESH, "--tensor", "x=y", "--weights", "w.npz").out
    assert "before, tensors were brought to their inputs: 0 B of traffic" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--tensor", "x=none"), "there is no tensor 'none'"),
        (("--tensor", "z=y"), "there is no input 'z'; known are x, up, down"),
        (("--tensor", "x=y", "--inputs", "all.npz"), "--tensor x=y: 'x' is given already; leave one out"),
        (("--tensor", "x"), "expected VALUE=NAME such as x=batch_7, not 'x'"),
        (("--save", "none=y"), "there is no output 'none'; known are result"),
        (("--save", "result=a/b"), "'a/b' is no name of a stored tensor"),
        (("--save", "result=a", "--save", "result=a"), "two outputs would be stored as 'a'"),
        (("--save", "result=a", "--dry"), "--dry computes no values"),
    ],
)
def test_wrong_names_of_stored_tensors_are_one_message(
    tapestry: Run, program: Path, options: tuple[str, ...], message: str
) -> None:
    write_tensors("all.npz", values())
    write_tensors("y.npz", {"y": values()["x"]})
    shown(tapestry, "load", "y.npz")
    assert message in complaint(tapestry("simulate", program, *MESH, *options))
    assert [t["name"] for t in shown(tapestry, "list")] == ["y"]
