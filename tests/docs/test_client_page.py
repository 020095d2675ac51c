"""Tests that the blocks of the page about the client (fences `python3`) do what it says, against a real service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.docs.test_docs import ROOT, blocks
from tests.service.processes import Service
from tests.teg.importers.models import GRAPHS

pytestmark = pytest.mark.slow
MODEL = GRAPHS / "tiny_taso_bert_8layer_s64.winputs.onnx"


def test_the_blocks_run_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = "\n".join(blocks(ROOT / "docs" / "client.md", "python3"))
    assert source.count("http://127.0.0.1:8000") == 3
    (tmp_path / "model.onnx").symlink_to(MODEL)
    monkeypatch.chdir(tmp_path)
    with Service(f"sqlite:///{tmp_path / 'client.db'}", tmp_path / "log", "--islands", "1") as service:
        names: dict[str, Any] = {"__name__": "client_page"}
        code = source.replace("http://127.0.0.1:8000", service.address)
        exec(compile(code, "docs/client.md", "exec"), names)
        runs = service.get("/v1/runs")["items"]
    assert [run["status"] for run in runs] == ["succeeded"] * 3
    printed = capsys.readouterr().out
    assert f"{names['found'].run.id} False" in printed
    assert "422 invalid [('/mesh'," in printed and "'/seed'" in printed
    assert "PlanRecord(" in printed.splitlines()[-1]
