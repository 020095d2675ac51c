"""Tests of `tapestry train`: the step is written and reported; faults are one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tapestry.teg.document import load, save
from tests.service.conftest import Run, complaint
from tests.teg.training.test_step import perceptron, refused


@pytest.fixture
def document(tmp_path: Path) -> Path:
    path = tmp_path / "program.json"
    save(perceptron(), path)
    return path


def test_the_step_is_written_and_reported(tapestry: Run, document: Path, tmp_path: Path) -> None:
    output = tmp_path / "step.json"
    reported = tapestry("train", document, "--train", "*st", "--train", "second", "-o", output, "--json").json
    assert reported["loss"] == "cross_entropy of logits.result" and reported["loss_output"] == "loss"
    assert reported["trained"] == ["first", "second"] and reported["inputs"] == ["labels"]
    step = load(output)
    assert step.structural_hash == reported["structural_hash"]
    assert reported["blocks"] == {"before": len(perceptron().blocks), "after": len(step.blocks)}
    assert reported["state_bytes"] == 2 * 4 * (5 * 8 + 8 * 4) + 4
    assert reported["flops"]["after"] > 2 * reported["flops"]["before"]


def test_the_choice_of_the_loss_is_printed(tapestry: Run, document: Path) -> None:
    printed = tapestry("train", document, "--optimizer", "sgd").out
    assert "cross_entropy of logits.result" in printed and "3 parameters: first, bias, second" in printed


@pytest.mark.parametrize(
    ("options", "message"),
    (
        (("--loss", "logit"), "no loss and no output of floats 'logit'"),
        (("--train", "w"), "no source of floats is called 'w'"),
        (("--momentum", "0.5"), "momentum: adam has none; use sgd"),
        (("--learning-rate", "nan"), "learning_rate: expected a number above 0, not nan"),
    ),
)
def test_faults_are_one_line(tapestry: Run, document: Path, options: tuple[str, ...], message: str) -> None:
    assert message in complaint(tapestry("train", document, *options))


def test_a_block_without_a_rule_is_named(tapestry: Run, tmp_path: Path) -> None:
    path = tmp_path / "refused.json"
    save(refused(), path)
    assert "block 'running' (scan): it scans by 'max'" in complaint(tapestry("train", path))
