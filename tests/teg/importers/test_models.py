"""Tests of whole models: the tiny twins give the recorded values, the full ones have the expected structure."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tapestry.teg.graph import Graph
from tapestry.teg.importers import from_onnx
from tapestry.teg.validate import validate
from tests.teg.importers.models import GPT2, GRAPHS, run

TWINS = [
    f"tiny_{name}{form}"
    for name in ("gpt2_small_b1_s1024", "resnet50_b16_224", "llama2_7b_1layer_b1_s2048")
    for form in ("", ".winputs")
]


def operators(graph: Graph) -> Counter[str]:
    return Counter(b.operator for b in graph.blocks)


@pytest.mark.parametrize("name", TWINS)
def test_a_tiny_twin_gives_the_recorded_outputs(name: str) -> None:
    recorded = np.load(GRAPHS / f"{name}.npz")
    graph = from_onnx(GRAPHS / f"{name}.onnx")
    found = run(graph, {k[3:]: recorded[k] for k in recorded if k.startswith("in:")})
    outputs = [k for k in recorded if k.startswith("out:")]
    assert sorted(found) == sorted(k[4:] for k in outputs)
    for key in outputs:
        wanted = recorded[key]
        assert found[key[4:]].shape == wanted.shape
        assert np.abs(found[key[4:]] - wanted).max() <= 1e-4 * np.abs(wanted).max()


def test_gpt2_needs_no_reshape_and_its_weights_are_factored_by_head() -> None:
    graph = from_onnx(GPT2)
    assert validate(graph) == []
    assert operators(graph)["reshape"] == 0
    weight = graph.by_site["m.transformer.h.3.attn.c_attn.weight"]
    assert graph.tensors[weight.outputs[0]].shape == (768, 3, 12, 64)
    assert weight.definition["logical_shape"] == (768, 2304)
    assert weight.definition["role"] == "parameter"
    assert graph.tensors["m.transformer.h.3.attn.c_proj.weight"].shape == (12, 64, 768)
    assert graph.by_site["linear"].definition["logical_shape"] == (1, 1024, 50257)


def test_gpt2_has_one_generated_mask() -> None:
    graph = from_onnx(GPT2)
    generators = [b for b in graph.blocks if b.operator == "cell" and not b.inputs]
    assert [b.site for b in generators] == ["node_where"]
    lowest = float(np.finfo(np.float32).min)
    query, key = ("index", "d2"), ("index", "d3")
    assert generators[0].definition["expr"] == (
        "where",
        ("le", key, query),
        ("const", 0.0),
        ("const", lowest),
    )
    assert [s.definition["role"] for s in graph.sources].count("constant") == 0


def test_gpt2_keeps_the_blocks_that_compute() -> None:
    counts = operators(from_onnx(GPT2))
    # 12 layers of 4 products and 2 of attention, and the head; views are q, k, v.
    assert (counts["contract"], counts["layer_norm"], counts["softmax"], counts["view"]) == (73, 25, 12, 36)
    assert counts["gather"] == 1


def test_llama_rotates_halves_of_heads_and_generates_its_tables() -> None:
    graph = from_onnx(GRAPHS / "llama2_7b_1layer_b1_s2048.onnx")
    assert validate(graph) == []
    assert operators(graph)["reshape"] == 0
    assert graph.tensors["m.model.layers.0.self_attn.q_proj.weight"].shape == (32, 2, 64, 4096)
    assert graph.tensors["m.model.layers.0.self_attn.o_proj.weight"].shape == (4096, 32, 128)
    tables = [
        b for b in graph.blocks if b.operator == "cell" and b.inputs == ("m.model.rotary_emb.inv_freq",)
    ]
    angle = ("mul", ("cast", "float32", ("index", "d1")), ("input", 0))
    assert [b.definition["expr"] for b in tables] == [("cos", angle), ("sin", angle)]
    assert [graph.tensors[b.outputs[0]].shape for b in tables] == [(2048, 64)] * 2
    roles = Counter(s.definition["role"] for s in graph.sources)
    assert roles == {"activation": 1, "parameter": 12, "constant": 1}


@pytest.mark.slow
def test_llama_with_32_layers_imports_in_proportion() -> None:
    graph = from_onnx(GRAPHS / "llama2_7b_32layer_b1_s2048.onnx")
    assert operators(graph)["reshape"] == 0
    assert operators(graph)["contract"] == 32 * 9 + 1


def test_resnet_reads_only_what_its_windows_reach() -> None:
    graph = from_onnx(GRAPHS / "resnet50_b16_224.onnx")
    assert validate(graph) == []
    counts = operators(graph)
    assert (counts["conv"], counts["reshape"], counts["pool"], counts["contract"]) == (53, 0, 1, 1)
    # Three shortcuts of stride 2 leave the last row and column unread.
    crops = [graph.tensors[b.outputs[0]].shape for b in graph.blocks if b.operator == "view"]
    assert crops == [(16, 256, 55, 55), (16, 512, 27, 27), (16, 1024, 13, 13)]


def test_an_old_opset_imports_too() -> None:
    graph = from_onnx(GRAPHS / "light_resnet50.onnx")
    assert validate(graph) == []
    assert operators(graph)["conv"] == 53
    assert operators(graph)["reshape"] == 0


def test_importing_twice_gives_the_same_graph() -> None:
    first, second = from_onnx(GPT2), from_onnx(GPT2.read_bytes(), name="gpt2_small_b1_s1024")
    assert first.blocks == second.blocks
    assert first.structural_hash == second.structural_hash
