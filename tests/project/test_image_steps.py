"""A test that carries out the steps of the Dockerfile in their order, below a temporary folder and without an engine.

Everything is done by the program that a step names, but for two: dependencies are compared with what is installed
here in place of being fetched, and users are noted in place of being made.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from tests.project.source import ROOT
from tests.project.test_containers import Instruction, dockerfile
from tests.service.processes import eventually, free_port

PLACES = ("/opt/tapestry", "/source", "/var/lib/tapestry", "/var/cache/tapestry")
PINNED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==(\S+)", re.MULTILINE)


class Image:
    """The file system of an image below a folder, and its environment."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.environment: dict[str, str] = {"PATH": os.environ["PATH"], "HOME": str(root)}
        self.folder = root
        self.users: list[str] = []
        self._programs = root / "stubs"
        self._programs.mkdir()
        for name in ("groupadd", "useradd"):
            self._stub(name, f'echo "{name} $*" >> {root}/users')
        own = "--owner tapestry --group tapestry"
        self._stub("install", f'[ "$1 $2 $3 $4 $5" = "--directory {own}" ] && shift 5 && mkdir -p "$@"')

    def _stub(self, name: str, line: str) -> None:
        path = self._programs / name
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)

    def below(self, text: str) -> str:
        """Return a text with the folders of the image below ours."""
        for place in PLACES:
            text = re.sub(rf"(?<![\w/]){place}(?![\w-])", f"{self.root}{place}", text)
        return text

    def expanded(self, text: str) -> str:
        return re.sub(r"\$(\w+)", lambda found: self.environment.get(found[1], ""), text)

    def begin_stage(self) -> None:
        """Begin with an environment of its own; files stay, as later stages copy them to the same places."""
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(self.root)}

    def do(self, step: Instruction) -> None:
        word, rest = step
        if word == "ENV":
            pairs = (pair.split("=", 1) for pair in shlex.split(rest))
            self.environment |= {name: self.expanded(self.below(value)) for name, value in pairs}
        elif word == "WORKDIR":
            self.folder = Path(self.below(rest))
            self.folder.mkdir(parents=True, exist_ok=True)
        elif word == "COPY":
            self._copy(rest.split())
        elif word == "RUN":
            self._run(rest)

    def _copy(self, words: list[str]) -> None:
        if words[0].startswith("--from="):
            source, target = map(self.below, words[1:])
            assert source == target and Path(source).is_dir(), "the stages share their places"
            return
        *sources, target = words
        for source in sources:
            place = self.folder / target / (source if target == "./" else "")
            if (ROOT / source).is_dir():
                tracked = ["git", "ls-files", "--cached", "--others", "--exclude-standard", source]
                for name in subprocess.run(
                    tracked, cwd=ROOT, capture_output=True, text=True, check=True
                ).stdout.split():
                    if (ROOT / name).exists():
                        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
                        shutil.copy2(ROOT / name, self.folder / name, follow_symlinks=False)
            else:
                shutil.copy2(ROOT / source, place)

    def _run(self, command: str) -> None:
        if "--require-hashes" in command:
            self._install_locked(self.folder / command.rsplit(maxsplit=1)[-1])
            return
        if command.startswith("python -m venv "):
            command = command.replace("python", sys.executable, 1)
        line = self.below(command)
        path = f"{self._programs}:{self.environment['PATH']}"
        environment = {**self.environment, "PATH": path}
        done = subprocess.run(
            ["sh", "-ec", line], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, f"RUN {command}:\n{done.stdout}{done.stderr}"

    def _install_locked(self, lock: Path) -> None:
        """Let the image's Python find the libraries of this one; those that are here have the versions of the lock."""
        pins = dict(PINNED.findall(lock.read_text()))
        assert {"numpy", "fastapi", "sqlalchemy", "psycopg", "setuptools"} <= set(pins)
        wrong = {}
        for name, pin in pins.items():
            try:
                found = version(name)
            except PackageNotFoundError:  # a library of an extra, which this environment need not have
                continue
            if found != pin:
                wrong[name] = (found, pin)
        assert not wrong, "this environment is not that of the locks: run make venv"
        (site,) = Path(self.below("/opt/tapestry/lib")).glob("python3*/site-packages")
        for old in (
            *site.glob("setuptools*"),
            site / "pkg_resources",
        ):  # of the new environment: the lock has a newer one
            shutil.rmtree(old, ignore_errors=True)
        here = [path for path in sys.path if path.endswith("site-packages")]
        # A line in a .pth file adds a folder without its own .pth files: the editable installation stays out.
        (site / "dependencies.pth").write_text("\n".join(here))


def environment_of(image: Image, more: Mapping[str, str]) -> dict[str, str]:
    return {**image.environment, **more}


@pytest.mark.slow
def test_the_steps_of_the_image_lead_to_a_service_that_answers(tmp_path: Path) -> None:
    image = Image(tmp_path)
    for step in dockerfile():
        if step.word == "FROM":
            image.begin_stage()
        image.do(step)

    users = (tmp_path / "users").read_text().splitlines()
    assert [line.split()[0] for line in users] == ["groupadd", "useradd"]
    final = {step.word: step.rest for step in dockerfile()}
    (entry,) = json.loads(final["ENTRYPOINT"])
    program = shutil.which(entry, path=image.environment["PATH"])
    assert program == image.below(f"/opt/tapestry/bin/{entry}")
    (package,) = Path(image.below("/opt/tapestry/lib")).glob("python3*/site-packages/tapestry/__init__.py")
    assert package.is_file()

    port = free_port()
    secret = "a-secret-of-this-test"
    own = {"TAPESTRY_API_KEY": secret, "TAPESTRY_PORT": str(port), "TAPESTRY_LOG_FORMAT": "text"}
    arguments = json.loads(final["CMD"])
    assert arguments == ["serve", "--host", "0.0.0.0"]
    log = (tmp_path / "log").open("wb")
    server = subprocess.Popen(
        [program, *arguments[:1], "--host", "127.0.0.1", "--no-worker"],
        cwd=image.folder,
        env=environment_of(image, own),
        stderr=log,
    )
    try:
        check = final["HEALTHCHECK"]
        command = json.loads(check[check.index("[") :].replace(":8000", f":{port}"))
        assert command[0] == "python"
        python = image.below("/opt/tapestry/bin/python")

        def is_healthy() -> bool:
            assert server.poll() is None, (tmp_path / "log").read_text()
            return subprocess.run([python, *command[1:]], capture_output=True, timeout=60).returncode == 0

        eventually(is_healthy, 90, "the image's health check passes")
    finally:
        server.terminate()
        code = server.wait(60)
        log.close()
    assert code == 0
    assert Path(image.below("/var/lib/tapestry/tapestry.db")).is_file()
    volumes = json.loads(final["VOLUME"])
    assert all(Path(image.below(place)).is_dir() for place in volumes)
