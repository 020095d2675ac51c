"""The environment can be made anywhere: a lock with hashes and without addresses, and no large framework."""

import re
import tomllib
from pathlib import Path

import pytest

ADDRESS = re.compile(
    r"https?://|file://|^\s*(--|-)(index-url|extra-index-url|find-links|i|f)\b", re.MULTILINE
)
PINNED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==(\S+)", re.MULTILINE)


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.fixture
def lock(root: Path) -> str:
    return (root / "requirements.lock").read_text()


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


def test_large_frameworks_stay_out_of_the_lock(lock: str) -> None:
    locked = {normal(name) for name, _ in PINNED.findall(lock)}
    assert not locked & {"torch", "jax", "jaxlib", "triton"}
    assert not [name for name in locked if name.startswith("nvidia-")]


def test_the_lock_holds_base_and_dev(lock: str, project: dict) -> None:
    locked = {normal(name) for name, _ in PINNED.findall(lock)}
    wanted = project["dependencies"] + project["optional-dependencies"]["dev"]
    names = {normal(re.match(r"[A-Za-z0-9._-]+", line).group()) for line in wanted}
    assert names <= locked, "run `make lock`"


def test_extras_are_the_documented_ones(project: dict) -> None:
    assert set(project["optional-dependencies"]) == {"torch", "jax", "dask", "dev"}
