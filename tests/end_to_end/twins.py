"""The tiny twins of the models, small meshes for them, and random plans: uniform ones and searched ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from tapestry.costmodel.plan_space import Genes, PlanSpace
from tapestry.hardware import Mesh, load_mesh, mesh_from_dict, mesh_names
from tapestry.optimizer.placement.rng import new_rng
from tapestry.optimizer.placement.search_space import search_space
from tapestry.optimizer.placement.seeds import seed_plans
from tapestry.optimizer.placement.variation import RULES, hash_plan, vary
from tapestry.teg.evaluate import evaluate
from tapestry.teg.graph import Graph
from tapestry.teg.importers import from_onnx
from tapestry.teg.interface import pack_inputs
from tests.costmodel.programs import random_genes
from tests.teg.importers.models import GRAPHS

MODELS = ("gpt2_small_b1_s1024", "resnet50_b16_224", "llama2_7b_1layer_b1_s2048")
FORMS = ("", ".winputs")
# Whole training steps: forward, loss, gradients and update, with all weights as inputs.
TRAINING = ("train_mlp_784_4x4096_b1024_sgd", "train_heat_inverse_20steps_grads")
MESHES = ("2", "4", "6", "8", "2x4")
MOVES = 12


@dataclass(frozen=True)
class Twin:
    """A model of few small layers, the inputs recorded with it, and its outputs for them."""

    graph: Graph
    inputs: dict[str, np.ndarray]
    recorded: dict[str, np.ndarray]
    reference: dict[str, np.ndarray]


@cache
def load_twin(model: str, form: str) -> Twin:
    name = f"tiny_{model}{form}"
    arrays = dict(np.load(GRAPHS / f"{name}.npz"))
    graph = from_onnx(GRAPHS / f"{name}.onnx")
    inputs = pack_inputs(graph, {k[3:]: v for k, v in arrays.items() if k.startswith("in:")})
    recorded = {k[4:]: v for k, v in arrays.items() if k.startswith("out:")}
    return Twin(graph, inputs, recorded, evaluate(graph, inputs))


@cache
def mesh_of(text: str) -> Mesh:
    """Build a mesh: `2x4`: two nodes of four devices; `6`: six devices in one node; or one of the catalog."""
    if text in mesh_names():
        return load_mesh(text)
    sizes = [int(n) for n in text.split("x")]
    axes = [
        {"name": name, "size": n, "topology": "switch", "bandwidth_bytes_per_s": rate, "latency_s": latency}
        for name, n, rate, latency in zip(
            ("node", "gpu")[-len(sizes) :], sizes, (5e10, 4.5e11)[-len(sizes) :], (9e-6, 7e-6), strict=False
        )
    ]
    return mesh_from_dict({"name": text, "device": "h100-sxm5-80gb", "axes": axes})


@cache
def space_of(model: str, form: str, mesh: str) -> PlanSpace:
    return PlanSpace(load_twin(model, form).graph, mesh_of(mesh))


def random_plans(space: PlanSpace, count: int, seed: int) -> Iterator[Genes]:
    """Yield in turn any genes at all, and a seed changed by a dozen moves of all rules, as a search would."""
    rng = np.random.default_rng(seed)
    search = search_space(space)
    seeds, random_state = seed_plans(space, search), new_rng(rng)
    for k in range(count):
        genes = random_genes(rng, space)
        if k % 2:
            genes.strategies[:] = seeds[int(rng.integers(len(seeds)))]
            plan = space.compiled_genes(genes)
            digest = np.array([hash_plan(*plan)], np.uint64)
            for rule in rng.integers(0, len(RULES), MOVES):
                vary(rule, random_state, space.space, search, *plan, digest)
            genes = Genes(*plan)
        yield genes
