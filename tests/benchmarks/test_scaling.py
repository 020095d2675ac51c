"""Tests of the benchmark of sizes: one small search, its file and its resumption, messages."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import scaling
from benchmarks.contenders.recorder import FrontRecord
from benchmarks.layered import transformer


def test_seconds_to_a_share_are_those_of_the_first_front_that_is_good_enough() -> None:
    fronts = (np.array([[8.0, 8.0]]), np.array([[1.0, 2.0], [2.0, 1.0]]), np.array([[1.0, 2.0], [2.0, 1.0]]))
    records = [FrontRecord(float(k), 1, front) for k, front in enumerate(fronts)]
    assert scaling.seconds_to_share(records) == 1.0
    assert scaling.seconds_to_share([]) is None


def test_layers_are_alike() -> None:
    two, three = (len(transformer(layers).blocks) for layers in (2, 3))
    assert three - two == two - len(transformer(1).blocks) > 10


@pytest.mark.slow
def test_a_search_is_measured_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scaling, "warm_up", lambda contenders: None)
    file = tmp_path / "scaling.json"
    arguments = ["--layers", "1", "--devices", "8", "--several", "1", "--seconds", "2", "--json", str(file)]
    scaling.main(arguments)
    (found,) = json.loads(file.read_text())["searches"]
    assert (found["layers"], found["devices"], found["seconds"]) == (1, 8, 2.0)
    assert found["compile_s"] > 0 and found["peak_bytes"] > 1e8
    capsys.readouterr()
    scaling.main(arguments)
    assert "compile_s=" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--devices", "12"], "expected multiples of 8 up to 4096"),
        (["--layers", "0"], "expected counts of at least 1"),
        (["--seconds", "0"], "expected CPU seconds above 0"),
    ],
)
def test_a_mistake_is_reported(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        scaling.main(arguments)
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_damaged_file_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "scaling.json"
    file.write_text("{")
    with pytest.raises(SystemExit):
        scaling.main(["--json", str(file)])
    assert "name another file, or move it away" in " ".join(capsys.readouterr().err.split())
