"""Tests of the container files, as far as they can be checked without an engine."""

from __future__ import annotations

import ast
import json
import re
from typing import Any, NamedTuple

import pytest
import yaml

from tapestry.service.cli.parser import build_parser
from tapestry.service.settings import Limits
from tests.project.source import PACKAGES, ROOT

PINNED_IMAGE = re.compile(r"^[a-z/-]+:\d+\.\d+[\w.-]*$")
REQUIRED = re.compile(r"\$\{(\w+):\?[^}]+\}")
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = ("api", "worker", "retention")
INTERPOLATED = re.compile(r"\$\{\w+:-([^}]*)\}")  # a variable with a default
DASK = ("scheduler", "cluster-node", "cluster-worker")

services = pytest.mark.parametrize("name", SERVICES)


class Instruction(NamedTuple):
    word: str
    rest: str


def dockerfile() -> list[Instruction]:
    lines = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [Instruction(*line.split(maxsplit=1)) for line in joined.splitlines() if line]


def of(word: str) -> list[str]:
    return [instruction.rest for instruction in dockerfile() if instruction.word == word]


def last_stage() -> list[Instruction]:
    found = dockerfile()
    return found[max(k for k, instruction in enumerate(found) if instruction.word == "FROM") :]


def image_environment() -> dict[str, str]:
    (text,) = [instruction.rest for instruction in last_stage() if instruction.word == "ENV"]
    return dict(pair.split("=", 1) for pair in text.split())


def known_variables() -> set[str]:
    """Return the environment variables that the project's code reads."""
    sources = [ROOT / "service" / "settings.py", ROOT / "costmodel" / "compiled.py"]
    return {
        node.value
        for source in sources
        for node in ast.walk(ast.parse(source.read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.startswith(("TAPESTRY_", "FORWARDED_"))
    }


def test_images_are_pinned() -> None:
    bases = [text.split()[0] for text in of("FROM")]
    assert len(set(bases)) == 1 and all(PINNED_IMAGE.match(base) for base in bases)
    assert all(PINNED_IMAGE.match(service["image"]) for service in SERVICES.values())


def test_the_image_has_our_python() -> None:
    assert of("FROM")[0].startswith("python:3.11.")


def test_the_image_is_tagged_with_the_version_of_the_program() -> None:
    (version,) = re.findall(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert {SERVICES[name]["image"] for name in (*OURS, *DASK)} == {f"tapestry:{version}"}


def test_dependencies_come_by_hash_and_nothing_else_is_fetched() -> None:
    installs = [text for text in of("RUN") if "pip install" in text]
    assert len(installs) == 2
    assert "--require-hashes -r requirements-service.lock" in installs[0]
    assert "--no-deps" in installs[1] and "--no-build-isolation" in installs[1]
    assert not any(tool in text for text in of("RUN") for tool in ("apt-get", "curl", "wget"))
    assert of("ADD") == []


def test_what_is_copied_exists_and_is_let_in() -> None:
    let_in = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {source for text in of("COPY") if not text.startswith("--from") for source in text.split()[:-1]}
    assert copied == let_in
    assert set(PACKAGES) <= copied
    assert all((ROOT / name).exists() for name in copied)


def test_the_image_does_not_run_as_root() -> None:
    (user,) = [instruction.rest for instruction in last_stage() if instruction.word == "USER"]
    (made,) = [text for text in of("RUN") if "useradd" in text]
    assert user == "10001:10001" and "--uid 10001" in made and "--gid 10001" in made


def test_the_image_looks_after_its_own_health() -> None:
    (check,) = of("HEALTHCHECK")
    command = json.loads(check[check.index("[") :])
    assert command[:2] == ["python", "-c"]
    compile(command[2], "health check", "exec")
    assert "http://127.0.0.1:8000/healthz" in command[2]
    assert of("EXPOSE") == ["8000"]


def test_what_the_image_keeps_lies_in_volumes() -> None:
    (volumes,) = of("VOLUME")
    environment = image_environment()
    assert json.loads(volumes) == [environment["TAPESTRY_HOME"], environment["TAPESTRY_CACHE"]]


def test_every_variable_is_one_that_the_program_reads() -> None:
    known = known_variables()
    assert {name for name in image_environment() if name.startswith("TAPESTRY_")} <= known
    for name in (*OURS, "cluster-worker"):
        assert set(SERVICES[name]["environment"]) <= known


def test_every_command_is_one_that_the_program_understands() -> None:
    assert of("ENTRYPOINT") == ['["tapestry"]']
    (default,) = of("CMD")
    build_parser().parse_args(json.loads(default))
    api = build_parser().parse_args(SERVICES["api"]["command"])
    assert (api.command, api.no_worker, api.host, api.port) == ("serve", True, "0.0.0.0", 8000)
    assert build_parser().parse_args(SERVICES["worker"]["command"]).command == "worker"
    command = [INTERPOLATED.sub(r"\1", word) for word in SERVICES["retention"]["command"]]
    retention = build_parser().parse_args(command)
    assert (retention.every, retention.older_than) == (86_400, 90 * 86_400)
    node, worker = (build_parser().parse_args(SERVICES[name]["command"]) for name in DASK[1:])
    assert node.cluster == worker.search_on == "tcp://scheduler:8786"


def test_only_the_api_is_reachable_and_only_from_this_host() -> None:
    assert {name: service.get("ports") for name, service in SERVICES.items()} == {
        "postgres": None,
        "api": ["127.0.0.1:8000:8000"],
        **dict.fromkeys(("worker", "backup", "retention", *DASK)),
        "proxy": ["80:80", "443:443"],
    }
    assert COMPOSE["networks"]["database"] == COMPOSE["networks"]["cluster"] == {"internal": True}
    inside = ("postgres", "worker", "backup")
    assert all(SERVICES[name]["networks"] == ["database"] for name in inside)
    assert SERVICES["proxy"]["networks"] == ["outside"]


@services
def test_containers_have_no_rights_they_do_not_need(name: str) -> None:
    service = SERVICES[name]
    assert service["cap_drop"] == ["ALL"]
    assert service.get("cap_add") == (["NET_BIND_SERVICE"] if name == "proxy" else None)
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["read_only"] is True and any(place.startswith("/tmp:") for place in service["tmpfs"])
    assert not service.get("privileged") and service.get("user", "10001") != "root"


def test_containers_come_back_and_end_in_their_own_time() -> None:
    assert {service["restart"] for service in SERVICES.values()} == {"unless-stopped"}
    assert {SERVICES[name]["stop_grace_period"] for name in OURS} == {"30s"}
    assert SERVICES["worker"]["deploy"]["replicas"] == 1


@services
def test_every_container_has_limits(name: str) -> None:
    limits = SERVICES[name]["deploy"]["resources"]["limits"]
    assert set(limits) == {"cpus", "memory", "pids"}
    assert re.fullmatch(r"(\$\{TAPESTRY_\w+_MEMORY:-)?\d+[mg]\}?", limits["memory"])
    assert 0 < limits["pids"] <= 1024


def test_what_is_not_always_wanted_has_a_profile() -> None:
    profiles = {name: service.get("profiles", []) for name, service in SERVICES.items()}
    assert profiles == {
        **{key: [] for key in ("postgres", "api", "worker", "backup")},
        **{key: ["dask"] for key in DASK},
        "proxy": ["tls"],
        "retention": ["retention"],
    }


def test_the_service_waits_for_a_healthy_database() -> None:
    assert SERVICES["postgres"]["healthcheck"]["test"][:2] == ["CMD", "pg_isready"]
    for name in OURS:
        assert SERVICES[name]["depends_on"] == {"postgres": {"condition": "service_healthy"}}


def test_secrets_come_from_outside_and_are_required() -> None:
    requested = set(REQUIRED.findall(json.dumps(SERVICES)))
    assert requested == {"TAPESTRY_API_KEY", "TAPESTRY_DATABASE_PASSWORD"}
    assert REQUIRED.fullmatch(SERVICES["postgres"]["environment"]["POSTGRES_PASSWORD"])
    assert REQUIRED.fullmatch(SERVICES["backup"]["environment"]["PGPASSWORD"])
    assert REQUIRED.fullmatch(SERVICES["api"]["environment"]["TAPESTRY_API_KEY"])
    assert "TAPESTRY_API_KEY" not in SERVICES["worker"]["environment"]
    assert ".env" in (ROOT / ".gitignore").read_text().splitlines()
    page = (ROOT / "docs" / "deployment.md").read_text()
    assert all(f"{name}=%s" in page for name in requested)


def test_volumes_and_networks_are_declared() -> None:
    mounts = [
        re.sub(r"\$\{\w+:-(\w+)\}", r"\1", volume)
        for s in SERVICES.values()
        for volume in s.get("volumes", ())
    ]
    used = {volume.split(":")[0] for volume in mounts}
    joined = {network for service in SERVICES.values() for network in service["networks"]}
    assert (used, joined) == (set(COMPOSE["volumes"]), set(COMPOSE["networks"]))
    targets = {volume.split(":")[1] for name in OURS for volume in SERVICES[name]["volumes"]}
    assert targets == {image_environment()["TAPESTRY_CACHE"]}
    configs = {item["source"] for service in SERVICES.values() for item in service.get("configs", ())}
    assert configs == set(COMPOSE["configs"])
    assert all((ROOT / config["file"]).is_file() for config in COMPOSE["configs"].values())


def test_the_proxy_speaks_tls_and_passes_events_on_at_once() -> None:
    text = (ROOT / "deploy" / "compose" / "Caddyfile").read_text()
    assert text.count("{") == text.count("}") > 0
    assert "{$TAPESTRY_DOMAIN:localhost} {" in text and "reverse_proxy api:8000 {" in text
    for line in (
        "flush_interval -1",
        "read_header 10s",
        "read_body 15m",
        "max_size 512MB",
        "respond @monitoring 404",
    ):
        assert line in text
    assert f"max_size {Limits().upload_bytes // 2**20}MB" in text
