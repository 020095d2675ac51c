"""Tests that every option of a run reaches all that is made from it: API, command line, form, store, and summaries."""

from __future__ import annotations

import html
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from tapestry.hardware import load_mesh
from tapestry.optimizer.run.initialization import NOT_IN_THE_SEARCH
from tapestry.optimizer.run.option_fields import Option
from tapestry.optimizer.run.options import OPTIONS, RunOptions, options_and_faults
from tapestry.service.api.bodies import RunBody
from tapestry.service.api.run_models import RunAnswer
from tapestry.service.api.runs import run_document
from tapestry.service.cli.options.searching import options_of
from tapestry.service.cli.parser import build_parser
from tapestry.service.dashboard import pages
from tapestry.service.presentation import options_document
from tapestry.service.requests import check_request
from tapestry.service.settings import Limits
from tapestry.service.store import RunRequest, Store, mesh_to_document
from tests.service.programs import two_layers

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
# Values other than the default where a text must be of some form.
SAMPLES: dict[str, Any] = {
    "objectives": ("energy_j", "time_s"),
    "constraints": ("time_s<=5ms", "energy_j<=1J"),
    "worth": {"time_s": "120usd/s"},
    "rules": ("fuse_cells",),
    "pins": {"y": "[gpu.0, -]"},
    "start_from": "0123456789ab",
    "prior": "latest",
    "compute_dtype": "bf16",
}
EVERY = pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)


def sample(option: Option) -> Any:
    """Return a value other than the default."""
    if option.choices:
        return option.choices[-1] if option.default != option.choices[-1] else option.choices[0]
    if option.kind == "integer":
        return 4  # stages are equal parts of a mesh
    if option.kind == "number":
        lowest, most = option.above or option.least or 0.0, option.most or 10.0
        return (lowest + most) / 2
    return SAMPLES[option.name]


def options_with(option: Option) -> RunOptions:
    return RunOptions(**{option.name: sample(option)})


def written(option: Option, value: Any) -> Iterator[str]:
    """Yield the words that give an option on the command line."""
    texts = [f"{k}={v}" for k, v in value.items()] if option.kind == "pairs" else value
    if option.is_repeated:
        for text in texts:
            yield from (option.flag, text)
    else:
        yield from (option.flag, ",".join(texts) if option.kind == "texts" else str(value))


@EVERY
def test_a_request_of_the_api_takes_it(option: Option) -> None:
    requested = options_with(option)
    body = RunBody.model_validate({"graph_id": "0" * 32, "mesh": "dgx-h100", **requested.to_request()})
    assert body.options == requested
    assert check_request(body.graph_id, "dgx-h100", body.options, Limits()).options == requested


@EVERY
def test_the_api_document_describes_it(option: Option) -> None:
    for model in (RunBody, RunAnswer):
        schema = model.model_json_schema()
        fields = schema["properties"]
        for part in option.path[:-1]:
            fields = schema["$defs"][fields[part]["$ref"].rpartition("/")[2]]["properties"]
        assert fields[option.path[-1]]["description"] == option.description


@EVERY
def test_a_search_takes_it(option: Option) -> None:
    if option.name not in ("start_from", "prior", "verify", "execution_seconds"):
        assert options_and_faults(None, {option.name: sample(option)}) == (options_with(option), ())
    assert {known.name for known in OPTIONS} >= NOT_IN_THE_SEARCH


@EVERY
def test_the_command_line_takes_it(option: Option, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["optimize", "program.onnx", "--mesh", "dgx-h100", *written(option, sample(option))]
    assert options_of(build_parser().parse_args(words)) == options_with(option)
    with pytest.raises(SystemExit):
        build_parser().parse_args(["optimize", "--help"])
    message = " ".join(capsys.readouterr().out.split())
    assert option.flag in message
    assert " ".join(option.description.replace("`", "'").split()[:3]) in message


@EVERY
def test_the_form_has_a_field_for_it(option: Option, form: str) -> None:
    assert f'data-fault="{option.pointer}"' in form
    name = option.name.replace("_", "-")
    assert f'id="{name}"' in form
    if option.name not in ("objectives", "constraints"):  # these have cards with explanations of their own
        assert option.description.replace("`", "") in html.unescape(form)


@pytest.fixture(scope="module")
def form() -> str:
    app = FastAPI()
    app.include_router(pages.router)
    return TestClient(app).get("/runs/new").text


@EVERY
def test_the_store_keeps_it(option: Option, tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'options.db'}")
    requested = options_with(option)
    graph_id = store.graphs.save(two_layers(), NOON).id
    mesh = mesh_to_document(load_mesh("dgx-h100"))
    run_id = store.runs.submit(RunRequest(graph_id, mesh, requested), NOON).id
    assert store.runs.request(run_id).options == requested
    summary = store.runs.get(run_id)
    store.close()
    assert option.value_in(run_document(summary)) == option.to_json(sample(option))


@EVERY
def test_the_texts_of_options_show_it(option: Option) -> None:
    requested = options_with(option)
    assert {"title": option.title, "text": option.text(sample(option))} in options_document(requested)
    assert dict(RunOptions().described())[option.title] == option.text(getattr(RunOptions(), option.name))
