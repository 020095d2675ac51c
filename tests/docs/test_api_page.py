"""Tests of the API page by curl alone: its commands run in order against the real service and do what it says.

The model is the tiny twin of the page's, under its name, and searched for a second: the demo does it in full size.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.setting import find_models
from tapestry.teg.tensor_files import read_tensors
from tests.docs.test_docs import ROOT, blocks
from tests.service.processes import Service


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None and "CI" not in os.environ, reason="curl is not installed")
def test_the_commands_of_the_api_page_do_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAPESTRY_LIMIT_IMPORT_SECONDS", "100")  # for the first command, on a busy host
    models = tmp_path / "examples" / "models"
    models.mkdir(parents=True)
    (models / "gpt2_small_b1_s1024.onnx").symlink_to(find_models(["tiny_gpt2_small_b1_s1024"])[0])
    script = "set -euo pipefail\n" + "\n".join(blocks(ROOT / "docs" / "api.md", "sh"))
    assert '"seconds": 5' in script
    script = script.replace('"seconds": 5', '"seconds": 1')

    with Service(f"sqlite:///{tmp_path / 'api.db'}", tmp_path / "log") as service:
        answer = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "TAPESTRY": service.address},
            capture_output=True,
            text=True,
            timeout=600,
        )
    assert answer.returncode == 0, answer.stdout + answer.stderr

    def document(name: str) -> Any:
        return json.loads((tmp_path / name).read_text())

    candidates, fused, made = document("offers.json"), document("fused.json"), document("rewritten.json")
    assert {rule["family"] for rule in candidates["rules"].values()} == {"fusion"}
    assert fused["stages"][0]["moves"] == candidates["moves"][:1]
    assert fused["blocks"]["after"] < fused["blocks"]["before"]
    assert (
        len(document("rewritten.teg.json")["blocks"]) == made["blocks"]["after"] != made["blocks"]["before"]
    )
    (reported,) = document("history.json")["items"]
    assert (reported["source"], reported["moves"]) == (
        made["source"],
        [m for s in made["stages"] for m in s["moves"]],
    )

    run, frontier, plan = document("run.json"), document("frontier.json"), document("plan.json")
    assert run["status"] == "succeeded"
    assert run["constraints"] == ["peak_memory_bytes<=40GiB"]
    assert len(frontier["plans"]) >= 8
    assert all(p["verified"]["sharding"]["ok"] for p in frontier["plans"])
    times = [p["cost"]["time_s"] for p in frontier["plans"]]
    assert times == sorted(times)

    numbers = [
        int(n) for n in re.findall(r"^id: ?(\d+)", (tmp_path / "events.txt").read_text(), re.MULTILINE)
    ]
    later = [int(n) for n in re.findall(r"^id: ?(\d+)", (tmp_path / "later.txt").read_text(), re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert later == numbers[3:]

    assert plan["id"] == frontier["plans"][0]["id"]
    assert document("moves.json")["moves"] == plan["moves"] != []
    explanation = document("explanation.json")
    assert (explanation["cost"], explanation["as_stored"]) == (plan["cost"], True)
    explicit = document("explicit.json")
    assert explicit["blocks"]
    execution = document("execution.json")
    assert execution["status"] == "succeeded"
    assert execution["verified"]["values"] == {
        **execution["verified"]["values"],
        "executed": True,
        "ok": True,
    }
    for name in ("peak_memory_bytes", "compute_flops"):
        assert execution["counts"][name]["predicted"] == execution["counts"][name]["counted"] > 0
    traffic = execution["counts"]["traffic_bytes"]
    assert traffic["predicted"] == traffic["counted"]
    assert document("trace.json")["traceEvents"]
    check_values(tmp_path, document)
    layout = document("layout.json")
    assert (layout["element"]["offset"], layout["slot"]["is_padding"], layout["size_bytes"]) == (17, True, 96)
    assert (tmp_path / "layout.svg").read_text().startswith("<svg")
    faults = {error["pointer"]: error for error in document("problem.json")["errors"]}
    assert set(faults) == {"/mesh", "/budget/seconds"}
    assert "dgx-h100" in faults["/mesh"]["allowed"]


def check_values(folder: Path, document: Callable[[str], Any]) -> None:
    given = document("given.json")
    assert given["status"] == "succeeded" and given["verified"]["values"]["ok"] is True
    assert given["request"]["given"] == ["input_ids"] and given["seed"] is None
    (logits,) = read_tensors(folder / "outputs.npz").values()
    assert (logits[:, :1] == logits[0, 0]).all() and logits.std() > 0, "all tokens are one"
    kept = read_tensors(folder / "logits.safetensors")["logits"]
    assert kept.tobytes() == logits.tobytes()
    assert document("tensors.json")["items"] == [document("logits.json")]
    assert document("logits.json")["place"]["mesh"] == "dgx-h100"
    assert document("copied.json")["digest"] == document("logits.json")["digest"]
    assert (document("loaded.json")["dtype"], document("loaded.json")["place"]) == ("int64", None)
