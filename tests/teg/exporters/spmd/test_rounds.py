"""Exported plans with micro-batches: loops written out, gradients accumulated, slices stacked again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tapestry.optimizer.structure.reductions import reductions
from tapestry.rewrites import replay
from tapestry.teg.exporters.spmd import to_torch
from tapestry.teg.interface import pack_inputs
from tapestry.teg.sharding.expand import ExplicitGraph, expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.rounds import parse_rounds
from tests.cases import rotating
from tests.teg.exporters.jax_process import JaxProcess
from tests.teg.exporters.spmd.group import ProcessGroup
from tests.teg.exporters.spmd.models import MODELS, TinyModel
from tests.teg.exporters.spmd.test_execution import assert_close, run
from tests.teg.exporters.spmd.test_jax_execution import run as run_jax
from tests.teg.exporters.spmd.test_recorded import CLOSE, errors
from tests.teg.importers.torch.ranks.recording import RecordingProcess
from tests.teg.sharding.programs import random_placements

LINE, GRID = MeshShape.of(gpu=4), MeshShape.of(node=2, gpu=2)

CASES = [
    ("live/mlp", "5 x input[0]"),
    ("live/training_step", "3 x words_1[1]"),
    ("live/training_step", "5 x words_1[0]"),
    ("live/recurrent", "3 x words[0]"),
    ("jax/flax_gpt_12x768_train_sgd", "2 x arg36[0]"),
    ("jax/flax_cnn_groupnorm_train_sgd", "2 x arg16[0]"),
    ("tiny/bert_large_b8_s512.winputs", "2 x input_ids[0]"),
]
LARGEST = "jax/flax_gpt_12x768_train_sgd"
PLANS = [(name, rounds, seed) for name, rounds in CASES for seed in range(2)]


def in_rounds(name: str, rounds: str, seed: int) -> tuple[TinyModel, ExplicitGraph]:
    """Return a model, and a random plan of it with rounds; every other one adds gradients at waypoints."""
    model, chosen = MODELS[name](), parse_rounds(rounds)
    assert chosen is not None
    if seed % 2:
        model = model._replace(graph=replay(model.graph, reductions(model.graph, chosen)))
    mesh_shape = (LINE, GRID)[seed % 2]
    rng = np.random.default_rng(seed)
    placements = random_placements(rng, model.graph, mesh_shape)
    return model, expand(model.graph, replace(placements, rounds=chosen), mesh_shape)


@pytest.mark.parametrize(("name", "rounds", "seed"), rotating(7, PLANS))
def test_pytorch_gives_what_other_engines_gave(
    name: str, rounds: str, seed: int, processes: ProcessGroup, tmp_path: Path
) -> None:
    model, explicit = in_rounds(name, rounds, seed)
    assert_close(run(processes, explicit, model.inputs, tmp_path, most=np.inf), model.outputs)


# JAX compiles these for minutes.
COMPILED = [plan for plan in PLANS if plan[0] not in (LARGEST, "live/recurrent")]


@pytest.mark.parametrize(("name", "rounds", "seed"), rotating(len(COMPILED), COMPILED))
def test_jax_gives_what_other_engines_gave(
    name: str, rounds: str, seed: int, jax_process: JaxProcess, tmp_path: Path
) -> None:
    model, explicit = in_rounds(name, rounds, seed)
    assert_close(run_jax(jax_process, explicit, model.inputs, tmp_path), model.outputs)


# Of one of the models, gradients of biases are sums that come to zero: what is left is noise, in double precision too.
READ = [(name, *rest) for name, *rest in PLANS if name not in (LARGEST, "live/recurrent")]


@pytest.mark.parametrize(("name", "rounds", "seed"), rotating(len(READ), READ))
def test_pytorch_modules_come_back_in(
    name: str, rounds: str, seed: int, recording: RecordingProcess, tmp_path: Path
) -> None:
    model, explicit = in_rounds(name, rounds, seed)
    module = tmp_path / "plan.py"
    module.write_text(to_torch(explicit))
    found = errors(recording, explicit, module, model.graph, pack_inputs(model.graph, model.inputs))
    assert found and max(found.values()) <= CLOSE
