"""Tests of the manifests for Kubernetes: what they promise can be read off them, without a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import yaml

from tapestry.service.cli.parser import build_parser
from tapestry.service.settings import Limits
from tests.project.source import ROOT
from tests.project.test_containers import COMPOSE, SERVICES, known_variables

FOLDER = ROOT / "deploy" / "kubernetes"
KUSTOMIZATION = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
MANIFESTS = [
    document
    for name in KUSTOMIZATION["resources"]
    for document in yaml.safe_load_all((FOLDER / name).read_text())
]
COMPONENT = "app.kubernetes.io/component"


class Pod(NamedTuple):
    name: str
    kind: str
    labels: dict[str, str]
    spec: dict[str, Any]

    @property
    def container(self) -> dict[str, Any]:
        (only,) = self.spec["containers"]
        return dict(only)


def of(kind: str) -> dict[str, dict[str, Any]]:
    return {document["metadata"]["name"]: document for document in MANIFESTS if document["kind"] == kind}


def pods() -> Iterator[Pod]:
    for kind in ("Deployment", "StatefulSet", "CronJob"):
        for name, document in of(kind).items():
            spec = document["spec"]["jobTemplate"]["spec"] if kind == "CronJob" else document["spec"]
            template = spec["template"]
            yield Pod(name, kind, template["metadata"]["labels"], template["spec"])


PODS = {pod.name: pod for pod in pods()}
each = pytest.mark.parametrize("pod", PODS.values(), ids=list(PODS))


def test_all_files_are_listed_and_all_that_is_in_them_is_in_the_namespace() -> None:
    listed = {*KUSTOMIZATION["resources"], "kustomization.yaml"}
    assert {path.name for path in FOLDER.iterdir()} == listed
    assert set(PODS) == {"api", "worker", "postgres", "backup"}
    (namespace,) = of("Namespace").values()
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    others = [document for document in MANIFESTS if document["kind"] != "Namespace"]
    assert {document["metadata"]["namespace"] for document in others} == {namespace["metadata"]["name"]}


@each
def test_pods_have_no_rights_they_do_not_need(pod: Pod) -> None:
    context = pod.spec["securityContext"]
    assert context["runAsNonRoot"] is True and context["runAsUser"] > 0
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod.spec["automountServiceAccountToken"] is False
    assert pod.container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


@each
def test_pods_have_limits_and_requests_within_them(pod: Pod) -> None:
    resources = pod.container["resources"]
    for kind in ("cpu", "memory"):
        assert 0 < quantity(resources["requests"][kind]) <= quantity(resources["limits"][kind])


def quantity(text: str) -> float:
    units = {"m": 1e-3, "Mi": 2**20, "Gi": 2**30}
    unit = next((unit for unit in ("Mi", "Gi", "m") if text.endswith(unit)), "")
    return float(text.removesuffix(unit)) * units.get(unit, 1)


@each
def test_what_runs_on_is_probed(pod: Pod) -> None:
    probes = {name for name in pod.container if name.endswith("Probe")}
    assert (
        probes
        == {
            "api": {"startupProbe", "livenessProbe", "readinessProbe"},
            "postgres": {"startupProbe", "livenessProbe", "readinessProbe"},
            "worker": {"startupProbe", "readinessProbe"},  # without its database it must not be killed
            "backup": set(),
        }[pod.name]
    )
    for name in probes:
        probe = pod.container[name]
        command = probe.get("exec", {}).get("command", [])
        if command[:1] == ["tapestry"]:
            assert build_parser().parse_args(command[1:]).command == "doctor"
        elif pod.name == "api":
            assert probe["httpGet"]["path"] == ("/readyz" if name == "readinessProbe" else "/healthz")


@each
def test_images_are_those_of_compose(pod: Pod) -> None:
    assert pod.container["image"] in {service["image"] for service in SERVICES.values()}


def test_commands_and_variables_are_ones_that_the_program_knows() -> None:
    api, worker = (build_parser().parse_args(PODS[name].container["args"]) for name in ("api", "worker"))
    assert (api.command, api.no_worker, api.host, api.port) == ("serve", True, "0.0.0.0", 8000)
    assert (worker.command, worker.islands) == (
        "worker",
        int(PODS["worker"].container["resources"]["limits"]["cpu"]),
    )
    for name in ("api", "worker"):
        ours = {item["name"] for item in PODS[name].container["env"] if item["name"].startswith("TAPESTRY_")}
        assert ours <= known_variables()


def test_secrets_are_referred_to_and_never_written() -> None:
    assert not of("Secret")
    needed = set()
    for pod in PODS.values():
        for item in pod.container["env"]:
            if any(word in item["name"] for word in ("PASSWORD", "KEY")):
                reference = item["valueFrom"]["secretKeyRef"]
                needed.add((reference["name"], reference["key"]))
    assert needed == {("tapestry", "api-key"), ("tapestry", "database-password")}
    page = (ROOT / "docs" / "deployment.md").read_text()
    assert all(f"--from-literal={key}=" in page for _, key in needed)
    assert "API_KEY" not in str(PODS["worker"].container["env"])


def test_variables_stand_before_those_that_name_them() -> None:
    for name in ("api", "worker"):
        names = [item["name"] for item in PODS[name].container["env"]]
        assert names.index("DATABASE_PASSWORD") < names.index("TAPESTRY_DATABASE_URL")
        (url,) = [i["value"] for i in PODS[name].container["env"] if i["name"] == "TAPESTRY_DATABASE_URL"]
        assert url == "postgresql://tapestry:$(DATABASE_PASSWORD)@postgres/tapestry"


@each
def test_volumes_are_there_and_nothing_else_is_written(pod: Pod) -> None:
    claimed = [
        claim["metadata"]["name"]
        for claim in of("StatefulSet").get(pod.name, {"spec": {}})["spec"].get("volumeClaimTemplates", ())
    ]
    declared = {*(volume["name"] for volume in pod.spec["volumes"]), *claimed}
    assert {mount["name"] for mount in pod.container["volumeMounts"]} == declared
    for volume in pod.spec["volumes"]:
        assert "hostPath" not in volume
        assert volume.get("emptyDir", {"sizeLimit": "1"})["sizeLimit"]


def test_disruptions_leave_one_of_each() -> None:
    budgets = of("PodDisruptionBudget")
    assert set(budgets) == {"api", "worker", "postgres"}
    for name, budget in budgets.items():
        selected = budget["spec"]["selector"]["matchLabels"]
        assert selected.items() <= PODS[name].labels.items()
    assert of("Deployment")["api"]["spec"]["replicas"] > budgets["api"]["spec"]["minAvailable"]


def test_selectors_find_their_pods() -> None:
    for name, service in of("Service").items():
        assert service["spec"]["selector"].items() <= PODS[name].labels.items()
        ports = {port["name"] for port in PODS[name].container["ports"]}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports
    for kind in ("Deployment", "StatefulSet"):
        for name, document in of(kind).items():
            assert document["spec"]["selector"]["matchLabels"].items() <= PODS[name].labels.items()


def test_only_what_must_be_is_reachable() -> None:
    policies = {name: policy["spec"] for name, policy in of("NetworkPolicy").items()}
    assert policies["nothing"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    to_database = policies["to-the-database"]["podSelector"]["matchExpressions"][0]["values"]
    from_those = policies["database"]["ingress"][0]["from"][0]["podSelector"]["matchExpressions"][0]["values"]
    assert set(to_database) == set(from_those) == {"api", "worker", "backup"}
    assert {pod.labels[COMPONENT] for pod in PODS.values()} == {*to_database, "database"}
    assert policies["api"]["ingress"][0]["ports"] == [{"protocol": "TCP", "port": 8000}]


def test_the_copies_are_made_by_the_script_of_compose() -> None:
    script = (ROOT / COMPOSE["configs"]["backup"]["file"]).read_text()
    assert of("ConfigMap")["backup"]["data"]["backup.sh"] == script
    job = of("CronJob")["backup"]["spec"]
    assert job["concurrencyPolicy"] == "Forbid" and len(job["schedule"].split()) == 5
    assert {"name": "BACKUP_EVERY_S", "value": "0"} in PODS["backup"].container["env"]


def test_nothing_more_is_taken_before_the_volume_is_full_and_proxies_are_believed() -> None:
    (claim,) = of("StatefulSet")["postgres"]["spec"]["volumeClaimTemplates"]
    volume = quantity(claim["spec"]["resources"]["requests"]["storage"])
    given = {one["name"]: one.get("value") for one in PODS["api"].container["env"]}
    assert 0.5 * volume < int(given["TAPESTRY_STORED_BYTES"]) <= 0.8 * volume
    assert "10.0.0.0/8" in given["FORWARDED_ALLOW_IPS"]
    sizes = {
        volume["name"]: volume.get("emptyDir", {}).get("sizeLimit") for volume in PODS["api"].spec["volumes"]
    }
    assert quantity(sizes["tmp"]) >= 4 * Limits().upload_bytes
