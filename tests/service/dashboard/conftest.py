"""Fixtures for a real browser over the real service. A page must not complain, and must ask no host but the service."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect, sync_playwright

from tests.service.dashboard.posting import posted_graph, posted_run
from tests.service.processes import Service

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
PATIENCE_MS = 30_000
OWN = ("data", "blob")

expect.set_options(timeout=PATIENCE_MS)

# Values that no text was made of.
UNWRITTEN = re.compile(r".{,40}(?:\[object |\bundefined\b|\bNaN\b|\bInfinity\b).{,20}")


@dataclass
class Watched:
    """A page with all its requests and complaints; `expected` are complaints that belong to the test."""

    page: Page
    host: str
    expected: tuple[str, ...] = ()
    complaints: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)
    requested: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("request", self._request)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    def _request(self, request: Request) -> None:
        address = urlsplit(request.url)
        self.requested.append(address.path)
        if address.scheme not in OWN and address.netloc != self.host:
            self.strangers.append(request.url)

    def check(self) -> None:
        unexpected = [
            message for message in self.complaints if not any(known in message for known in self.expected)
        ]
        assert (unexpected, self.strangers) == ([], [])
        unwritten = [] if self.page.is_closed() else UNWRITTEN.findall(self.page.locator("body").inner_text())
        assert not unwritten, f"the page shows {unwritten[0]!r}"
        assert self.requested, "nothing was watched"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start a browser for the tests of a file: while one is open, its event loop runs for all other tests too."""
    if not Path(CHROMIUM).exists():
        message = f"there is no {CHROMIUM}: `make browser` installs one, CHROMIUM names another"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(message)
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


Open = Callable[..., Page]


@pytest.fixture
def visit(browser: Browser) -> Iterator[Open]:
    """Yield a function that opens pages of a service, each in a profile of its own; check afterwards what they did."""
    watched: list[Watched] = []

    def open_page(
        service: Service,
        path: str,
        *,
        scheme: Literal["light", "dark"] = "light",
        width: int = 1400,
        expected: tuple[str, ...] = (),
        before: Callable[[Page], Any] = lambda page: None,
    ) -> Page:
        context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
        page = context.new_page()
        watched.append(Watched(page, urlsplit(service.address).netloc, expected))
        before(page)
        page.goto(service.address + path)
        return page

    yield open_page
    for one in watched:
        one.check()
        one.page.context.close()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Start a service with a worker and an empty database, shared by the tests of a file."""
    folder = tmp_path_factory.mktemp("service")
    with Service(f"sqlite:///{folder / 'tapestry.db'}", folder / "log") as running:
        yield running


@pytest.fixture(scope="module")
def idle_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Start a service without a worker."""
    folder = tmp_path_factory.mktemp("idle")
    with Service(f"sqlite:///{folder / 'tapestry.db'}", folder / "log", "--no-worker") as running:
        yield running


@pytest.fixture(scope="module")
def addresses(service: Service) -> dict[str, str]:
    """Return the addresses of all pages that have figures, of two ended runs and a batch."""
    graph = posted_graph(service)
    run, other = (posted_run(service, graph, seed=seed) for seed in (0, 1))
    body = {"graphs": [graph], "meshes": ["dgx-h100"], "seeds": [0], "budget": {"evaluations": 2000}}
    batch = service.post("/v1/batches", json=body)["id"]
    assert {service.wait_for_run(each)["status"] for each in (run, other)} == {"succeeded"}
    plans = [plan["id"] for plan in service.get(f"/v1/runs/{run}/frontier")["plans"]]
    return {
        "runs": "/",
        "run": f"/runs/{run}",
        "plan": f"/plans/{plans[0]}",
        "program": f"/graphs/{graph}",
        "compared plans": f"/compare?plans={plans[0]},{plans[-1]}",
        "compared runs": f"/compare?runs={run},{other}",
        "batches": "/batches",
        "batch": f"/batches/{batch}",
        "rules": "/rules",
        "mesh": "/devices?mesh=dgx-h100",
        "device": "/devices?device=h100-sxm5-80gb",
        "layouts": "/layouts",
        "new run": "/runs/new",
    }
