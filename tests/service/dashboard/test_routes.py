"""Tests of the pages' addresses without a browser: content, caching, and that no page runs inline scripts."""

from __future__ import annotations

import re

import pytest
from fastapi import FastAPI, Request, Response
from fastapi.testclient import TestClient

from tapestry.service.api.keys import COOKIE
from tapestry.service.dashboard import STATIC, error_page, router
from tapestry.service.dashboard.pages import KEY_COOKIE, example_names
from tapestry.service.examples import DEMO_MODEL, example_model

PAGES = (
    "/",
    "/batches",
    "/batches/abc",
    "/compare",
    "/runs/new",
    "/runs/abc",
    "/plans/abc-def",
    "/graphs/abc",
    "/layouts",
    "/login",
    "/tour",
)
INLINE = re.compile(r"<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=|javascript:")
ADDRESS = re.compile(r"""(?:src|href|action)=["']([^"']+)["']""")


@pytest.fixture
def client() -> TestClient:
    app = FastAPI()
    app.include_router(router)

    @app.get("/broken")
    def broken(request: Request) -> Response:
        return error_page(request, 500)

    return TestClient(app, follow_redirects=False)


@pytest.mark.parametrize("path", [*PAGES, "/broken"])
def test_pages_have_no_inline_scripts_or_styles_and_no_other_host(client: TestClient, path: str) -> None:
    text = client.get(path).text
    assert INLINE.findall(text) == []
    assert [address for address in ADDRESS.findall(text) if not address.startswith(("/", "#"))] == []
    titles = re.findall(r"<title>(.+)</title>", text)
    assert len(titles) == 1 and titles[0].endswith("Tapestry")


@pytest.mark.parametrize("path", PAGES)
def test_every_file_that_a_page_names_is_there(client: TestClient, path: str) -> None:
    for address in ADDRESS.findall(client.get(path).text):
        if address.startswith("/static/") and not address.startswith("/static/bundles/"):
            assert (STATIC / address.removeprefix("/static/")).is_file(), address


def test_what_is_in_an_address_is_text(client: TestClient) -> None:
    text = client.get('/runs/"><script>alert(1)</script>').text
    assert "<script>alert" not in text
    text = client.get("/login", params={"next": '"><script>alert(1)</script>'}).text
    assert "<script>alert" not in text


def test_the_page_of_a_plan_says_which_library_is_missing(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tapestry.service.dashboard.pages.is_installed", lambda name: name == "numpy")
    text = client.get("/plans/abc-def").text
    assert '<option value="numpy" data-missing="">numpy</option>' in text
    assert '<option value="torch" data-missing="torch">torch (not installed here)</option>' in text


@pytest.mark.parametrize("path", PAGES)
def test_scripts_and_styles_of_a_page_are_one_file_each_and_kept_by_their_digest(
    client: TestClient, path: str
) -> None:
    bundles = [address for address in ADDRESS.findall(client.get(path).text) if "/bundles/" in address]
    assert len(bundles) == len(set(bundles)) <= 2
    for address in bundles:
        packed = client.get(address)
        assert packed.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert packed.headers["content-encoding"] == "gzip"
        plain = client.get(address.partition("?")[0], headers={"Accept-Encoding": "identity"})
        assert (plain.headers["cache-control"], "content-encoding" in plain.headers) == ("no-cache", False)
        assert plain.text == packed.text
    assert client.get("/static/bundles/nowhere.js").status_code == 404


def test_examples_are_those_that_came_along(client: TestClient) -> None:
    assert example_names()[0] == DEMO_MODEL
    assert client.get(f"/examples/{DEMO_MODEL}").content == example_model(DEMO_MODEL).read_bytes()
    assert client.get("/examples/README.md").status_code == 404
    assert client.get("/examples/..%2F__init__.py").status_code == 404


def test_login_says_what_was_wrong_and_where_to_go_next(client: TestClient) -> None:
    text = client.get("/login", params={"next": "/runs/abc", "wrong": "1"}).text
    assert "That is not the key." in text
    assert '<input type="hidden" name="next" value="/runs/abc">' in text
    assert "That is not the key." not in client.get("/login").text


def test_commands_name_the_key_where_there_is_one(client: TestClient) -> None:
    assert COOKIE == KEY_COOKIE
    assert "<body data-key>" not in client.get("/runs/abc").text
    client.cookies.set(COOKIE, "any")
    assert "<body data-key>" in client.get("/runs/abc").text


def test_errors_for_people(client: TestClient) -> None:
    answer = client.get("/broken")
    assert answer.status_code == 500
    assert "Something went wrong in this program" in answer.text
