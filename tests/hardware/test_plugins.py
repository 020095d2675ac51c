"""Tests of devices and meshes of plug-ins: packages of TOML files, with names and aliases that nobody else uses."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

from tapestry.hardware import load_device
from tapestry.hardware.catalog import DEVICE_GROUP, MESH_GROUP
from tapestry.teg.plugins import Loaded, PlugInGroup, load

ROOT = Path(__file__).resolve().parents[2]
A100 = (ROOT / "hardware" / "devices" / "a100-sxm4-80gb.toml").read_text()
MESH = (ROOT / "hardware" / "meshes" / "dgx-a100.toml").read_text()
Plug = Callable[..., Loaded]

counter = iter(range(100))


@pytest.fixture
def plug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plug:
    """Return a function that loads a group from one plug-in: a package with these files."""

    def plugged(group: PlugInGroup, **texts: str) -> Loaded:
        package = f"acme_meshes_{next(counter)}"
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("")
        for name, text in texts.items():
            (tmp_path / package / f"{name}.toml").write_text(text)
        monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
        entry = SimpleNamespace(name="a", value=package, load=lambda: import_module(package))
        monkeypatch.setattr("tapestry.teg.plugins.entry_points", lambda group: [entry])
        return load(group, {"a100", "dgx-a100"})

    return plugged


def named(text: str, name: str, aliases: str) -> str:
    renamed = text.replace('name = "a100-sxm4-80gb"', f'name = "{name}"')
    return re.sub(r"aliases = \[.*\]", f"aliases = [{aliases}]", renamed)


def message(loaded: Loaded) -> list[str]:
    return [f"{fault.member}: {fault.message}" for plug_in in loaded.plug_ins for fault in plug_in.faults]


def test_a_package_of_files_adds_devices_and_meshes(plug: Plug) -> None:
    devices = plug(DEVICE_GROUP, mine=named(A100, "acme", '"acme-1"'))
    meshes = plug(MESH_GROUP, mine=MESH.replace("dgx-a100", "acme-node"))

    assert devices.members["acme"].memory_bytes == load_device("a100").memory_bytes
    assert meshes.members["acme-node"].device == load_device("a100")
    assert message(devices) == message(meshes) == []


def test_a_bad_file_is_left_out_with_its_place_and_the_others_stay(plug: Plug) -> None:
    good = named(A100, "acme", '"acme-1"')
    loaded = plug(DEVICE_GROUP, good=good, half=good.replace("cores = 108", "cores = 0"), none="= 3")

    assert list(loaded.members) == ["acme"]
    half, none = message(loaded)
    assert half == (
        "half.toml: CatalogError: half.toml: cores: expected a whole number from 1 to 1e+07, not 0"
    )
    assert none.startswith("none.toml: CatalogError: none.toml: not TOML: ")


def test_an_alias_that_is_taken_keeps_the_device_out(plug: Plug) -> None:
    loaded = plug(DEVICE_GROUP, mine=named(A100, "acme", '"a100"'))

    assert not loaded.members
    assert message(loaded) == ["acme: a device 'a100' comes with Tapestry, which keeps the name"]


def test_a_mesh_of_an_unknown_device_and_a_package_without_files_are_reported(plug: Plug) -> None:
    mesh = plug(MESH_GROUP, mine=MESH.replace("a100-sxm4-80gb", "acme-gone"))
    nothing = plug(DEVICE_GROUP)

    assert "there is no device 'acme-gone'" in message(mesh)[0]
    assert message(nothing)[0].startswith(": no TOML file lies in package 'acme_meshes_")
