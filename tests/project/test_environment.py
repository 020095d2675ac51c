"""Tests that the environment builds anywhere: a lock with hashes and without addresses, and no large framework."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ADDRESS = re.compile(
    r"https?://|file://|^\s*(--|-)(index-url|extra-index-url|find-links|i|f)\b", re.MULTILINE
)
PINNED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==(\S+)", re.MULTILINE)


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


LOCKS = ("requirements.lock", "requirements-service.lock", "requirements-test.lock")


@pytest.fixture(params=LOCKS)
def lock(root: Path, request: pytest.FixtureRequest) -> str:
    return (root / request.param).read_text()


@pytest.fixture
def project(root: Path) -> dict:
    return tomllib.loads((root / "pyproject.toml").read_text())["project"]


def test_the_lock_names_no_registry(lock: str) -> None:
    assert not ADDRESS.search(lock)


def test_every_pin_has_hashes(lock: str) -> None:
    pins = PINNED.split(lock)[1:]
    names, rests = pins[0::3], pins[2::3]
    assert names
    assert [name for name, rest in zip(names, rests, strict=True) if "--hash=sha256:" not in rest] == []


def test_large_frameworks_stay_out_of_the_locks(root: Path) -> None:
    for name in LOCKS:
        locked = {normal(found) for found, _ in PINNED.findall((root / name).read_text())}
        assert not locked & {"torch", "triton"}
        assert not [found for found in locked if found.startswith("nvidia-")]
        assert bool(locked & {"jax", "jaxlib"}) == (name == "requirements-test.lock")


def test_the_locks_hold_what_they_are_for(root: Path, project: dict) -> None:
    everything, service, test = (dict(PINNED.findall((root / name).read_text())) for name in LOCKS)
    extras = project["optional-dependencies"]
    base, postgres, client, dev, dask, otel = (
        {normal(re.match(r"[A-Za-z0-9._-]+", line).group()) for line in lines}
        for lines in (
            project["dependencies"],
            *(extras[name] for name in ("postgres", "client", "dev", "dask", "otel")),
        )
    )
    assert "tapestry[postgres,client]" in extras["dev"]
    dev = dev - {"tapestry"} | client
    assert base | dev | postgres | dask | otel <= {normal(name) for name in everything}, "run `make lock`"
    assert base | postgres | dask | otel <= {normal(name) for name in service}, "run `make lock`"
    assert service.items() <= everything.items(), "run `make lock`"
    assert not {normal(name) for name in service} & (dev - {"setuptools", "pyyaml"})  # dask needs the last
    assert {name: test[name] for name in test.keys() & everything} == {
        name: everything[name] for name in test.keys() & everything
    }, "run `make lock`"


def test_extras_are_the_documented_ones(project: dict) -> None:
    assert set(project["optional-dependencies"]) == {
        *("torch", "jax", "test", "dask", "parquet", "postgres", "client", "pandas", "dev", "otel")
    }


@pytest.mark.parametrize(
    ("environment", "code", "message"),
    [
        ({"CHROMIUM": sys.executable}, 0, ""),
        ({"CHROMIUM": "/nowhere/chromium"}, 0, "the tests that need it are left out"),
        (
            {"CHROMIUM": "/nowhere/chromium", "CI": "1"},
            1,
            "there is no /nowhere/chromium, or no curl; install them",
        ),
    ],
)
def test_a_missing_browser_is_reported_and_fails_only_where_nothing_may_be_left_out(
    root: Path, environment: dict, code: int, message: str
) -> None:
    inherited = {name: value for name, value in os.environ.items() if name not in ("CI", "CHROMIUM")}
    answer = subprocess.run(
        [root / ".ci" / "browser"], env=inherited | environment, capture_output=True, text=True
    )
    assert (answer.returncode, answer.stdout) == (code, "")
    assert message in answer.stderr if message else not answer.stderr
