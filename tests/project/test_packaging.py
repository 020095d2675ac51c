"""Tests of the one import package: a wheel's contents, what a checkout refuses, an installed wheel at work."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from importlib import import_module
from pathlib import Path

import pytest

import tapestry
from tests.project.source import PACKAGES, ROOT, modules
from tests.service.processes import Service

LINKED = (*PACKAGES, "examples")


def sources() -> list[str]:
    """List the files of the package by their paths in a wheel, as git knows them."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *LINKED]
    found = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    kept = [path for path in found if not path.startswith("examples/plugin/") and (ROOT / path).exists()]
    return [f"tapestry/{path}" for path in kept]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a wheel from a clean export: a `build` folder of the checkout would revive deleted files."""
    folder = tmp_path_factory.mktemp("wheel")
    copy = folder / "source"
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split():
        if (ROOT / name).exists():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name, follow_symlinks=False)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    command += ["--disable-pip-version-check", "--wheel-dir", str(folder), str(copy)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def elsewhere(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment outside the repository, with the wheel and our dependencies only."""
    folder = tmp_path_factory.mktemp("elsewhere")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    (site,) = (folder / "venv" / "lib").glob("python3*/site-packages")
    dependencies = Path(json.__file__).parent / "site-packages", *map(Path, sys.path)
    # A line in a .pth file adds a folder without its own .pth files: the editable installation stays out.
    lines = [str(path) for path in dependencies if path.name == "site-packages"]
    (site / "dependencies.pth").write_text("\n".join(lines))
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    install += ["--disable-pip-version-check", "--target", str(site), str(wheel)]
    subprocess.run(install, check=True, capture_output=True, timeout=300)
    return folder / "venv" / "bin" / "python"


def run(python: Path, *arguments: str, folders: tuple[Path, ...] = ()) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["PYTHONPATH"] = os.pathsep.join(map(str, folders))
    return subprocess.run(
        [str(python), *arguments],
        cwd=python.parent,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )


def test_every_module_is_imported_as_part_of_the_package() -> None:
    for module in modules():
        if not module.name.startswith("tapestry.service.store.migrations") and not module.name.endswith(
            "__main__"
        ):
            import_module(module.name)
    doubled = [name for name in sys.modules if name.partition(".")[0] in LINKED]
    assert not doubled


@pytest.mark.parametrize("name", LINKED)
def test_a_folder_is_no_package_of_its_own(name: str) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", f"import {name}"], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert answer.returncode == 1
    assert f"ImportError: import tapestry.{name}: imported as {name}" in answer.stderr


def test_public_names_are_loaded_when_they_are_used() -> None:
    program = (
        "import sys, tapestry; loaded = set(sys.modules);"
        "assert not loaded & {'numpy', 'networkx', 'numba', 'tapestry.teg'}, loaded;"
        "from tapestry import *; print(len(tapestry.__all__), sorted(set(tapestry.__all__) - set(globals())))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True, timeout=120
    )
    assert answer.stdout.split() == [str(len(tapestry.__all__)), "[]"]
    with pytest.raises(AttributeError, match="module 'tapestry' has no attribute 'optimze'"):
        _ = tapestry.optimze  # type: ignore[attr-defined]


@pytest.mark.slow
def test_a_wheel_holds_the_package_and_all_of_its_data(wheel: Path) -> None:
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    expected = {path for path in sources() if Path(path).suffix != ".md" or "models" in path}
    assert held == {"tapestry/__init__.py", "tapestry/py.typed"} | expected
    assert {Path(path).suffix for path in held} > {".toml", ".html", ".js", ".css", ".json", ".mako", ".onnx"}


@pytest.mark.slow
def test_an_installed_wheel_works_outside_the_repository(elsewhere: Path) -> None:
    where = run(elsewhere, "-c", "import tapestry; print(tapestry.__file__)")
    assert str(elsewhere.parents[1]) in where.stdout, where.stderr
    listed = run(elsewhere, "-m", "tapestry.service.cli", "meshes", "--json")
    assert "dgx-h100" in listed.stdout, listed.stderr
    demo = (
        "from tapestry.service.examples import DEMO_MODEL, example_model\n"
        "from tapestry import from_onnx\n"
        "print(len(from_onnx(example_model(DEMO_MODEL)).blocks))\n"
    )
    assert int(run(elsewhere, "-c", demo).stdout) > 100


@pytest.mark.slow
def test_an_installed_wheel_serves_its_pages(elsewhere: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'service.db'}"
    options = {"python": str(elsewhere), "folder": tmp_path}
    with Service(url, tmp_path / "log", "--no-worker", **options) as service:
        assert "<title>" in service.http.get("/").text
        assert service.http.get("/static/scripts/dom.js").status_code == 200
        assert {mesh["name"] for mesh in service.get("/v1/meshes")["items"]} >= {"dgx-h100"}


@pytest.mark.slow
def test_a_plug_in_is_found_beside_an_installed_wheel(elsewhere: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples" / "plugin", tmp_path / "source")
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-index",
        "--no-build-isolation",
        "--no-deps",
    ]
    install += ["--disable-pip-version-check", "--target", str(tmp_path / "site"), str(tmp_path / "source")]
    subprocess.run(install, check=True, capture_output=True, timeout=300)
    answer = run(elsewhere, "-m", "tapestry.service.cli", "plugins", "--json", folders=(tmp_path / "site",))
    found = json.loads(answer.stdout)["plugins"]
    assert {member for plug_in in found for member in plug_in["members"]} >= {
        "swiglu",
        "find_swiglu",
        "mi325x",
    }
    assert not any(plug_in["faults"] for plug_in in found)
