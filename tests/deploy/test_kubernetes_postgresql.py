"""The manifests of hubs that share PostgreSQL: schemas, references, updates of one at a time."""

from __future__ import annotations

import copy
import shutil
import subprocess
from typing import Any

import kubernetes_validate
import pytest
import yaml

from wirelake.cli.app import load
from wirelake.hub.config import load_config

from .shipped import DEPLOY, IMAGES, POSTGRESQL, documents, options
from .test_kubernetes import VERSIONS

BASE = DEPLOY / "kubernetes"
FOLDER = BASE / "postgresql"
KUSTOMIZATION = documents(FOLDER / "kustomization.yaml")[0]
OBJECTS = [each for name in KUSTOMIZATION["resources"] for each in documents(FOLDER / name)]
SERVICE_FILE = "/etc/wirelake/postgresql/pg_service.conf"


def one(kind: str, name: str = "wirelake-hub") -> dict[str, Any]:
    [found] = [
        each for each in OBJECTS if each["kind"] == kind and each["metadata"]["name"] == name
    ]
    return found


HUB = one("Deployment")
PODS: dict[str, dict[str, Any]] = {
    "hub": HUB["spec"]["template"],
    "migrate": one("Job", "wirelake-migrate")["spec"]["template"],
}


def test_every_manifest_is_applied() -> None:
    there = {path.name for path in FOLDER.glob("*.yaml")} - {"kustomization.yaml"}
    assert there == set(KUSTOMIZATION["resources"])
    assert KUSTOMIZATION["configMapGenerator"] == [{"name": "wirelake-hub", "files": ["hub.toml"]}]
    assert {f"{each['name']}:{each['newTag']}" for each in KUSTOMIZATION["images"]} <= IMAGES


@pytest.mark.parametrize("version", VERSIONS)
def test_manifests_conform_to_the_schemas(version: str) -> None:
    for each in OBJECTS:
        kubernetes_validate.validate(each, version, strict=True)
    wrong = copy.deepcopy(HUB)
    wrong["spec"]["strategy"]["rollingUpdate"]["maxUnavailible"] = 1
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, version, strict=True)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.parametrize("folder", [BASE, FOLDER], ids=["sqlite", "postgresql"])
def test_kustomize_builds_what_is_checked_here(folder: Any) -> None:
    made = subprocess.run(
        ["kubectl", "kustomize", folder], capture_output=True, text=True, check=True, timeout=60
    )
    built = [each for each in yaml.safe_load_all(made.stdout) if each]
    for each in built:
        kubernetes_validate.validate(each, VERSIONS[-1], strict=True)
        assert each["metadata"]["namespace"] == "wirelake"
    [config] = [each for each in built if each["kind"] == "ConfigMap"]
    assert config["data"]["hub.toml"] == (folder / "hub.toml").read_text(encoding="utf-8")
    named = {
        volume["configMap"]["name"]
        for each in built
        if each["kind"] in {"Deployment", "StatefulSet"}
        for volume in each["spec"]["template"]["spec"]["volumes"]
        if "configMap" in volume
    }
    assert named == {config["metadata"]["name"]}
    if folder == FOLDER:
        kinds = sorted(each["kind"] for each in built if each["kind"] != "ConfigMap")
        assert kinds == sorted(each["kind"] for each in OBJECTS)


def test_two_of_three_hubs_serve_during_an_update_and_a_drain() -> None:
    spec = HUB["spec"]
    assert spec["replicas"] == 3
    assert spec["strategy"]["type"] == "RollingUpdate"
    assert spec["strategy"]["rollingUpdate"]["maxUnavailable"] == 1
    budget = one("PodDisruptionBudget")["spec"]
    assert budget["maxUnavailable"] == 1
    labels = PODS["hub"]["metadata"]["labels"]
    assert budget["selector"] == spec["selector"] == {"matchLabels": labels}
    [apart] = PODS["hub"]["spec"]["affinity"]["podAntiAffinity"][
        "preferredDuringSchedulingIgnoredDuringExecution"
    ]
    assert apart["podAffinityTerm"]["labelSelector"] == {"matchLabels": labels}
    assert apart["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
    [spread] = PODS["hub"]["spec"]["topologySpreadConstraints"]
    assert spread["labelSelector"] == {"matchLabels": labels}


def test_hubs_drain_before_they_are_killed() -> None:
    pod = PODS["hub"]["spec"]
    [hub] = pod["containers"]
    before = int(hub["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] > before + load_config(POSTGRESQL).limits.drain_s


def test_readiness_depends_on_the_store_and_liveness_does_not() -> None:
    config = load_config(POSTGRESQL)
    [hub] = PODS["hub"]["spec"]["containers"]
    pages = {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}
    for probe, page in pages.items():
        command = hub[probe]["exec"]["command"]
        assert command[:3] == ["python", "/opt/wirelake/health.py", page]
        assert f"https://127.0.0.1:{config.admin.port}" in command
        assert command[-1] == options(hub["args"])["data"]


@pytest.mark.parametrize("name", PODS)
def test_pods_have_few_privileges(name: str) -> None:
    pod = PODS[name]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    one("ServiceAccount", pod["serviceAccountName"])
    [container] = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["image"] in IMAGES
    assert "memory" in container["resources"]["limits"]


@pytest.mark.parametrize("name", PODS)
def test_mounts_and_volumes_fit(name: str) -> None:
    pod = PODS[name]["spec"]
    [container] = pod["containers"]
    mounts = container["volumeMounts"]
    assert {each["name"] for each in mounts} == {each["name"] for each in pod["volumes"]}
    assert not [each for each in pod["volumes"] if "persistentVolumeClaim" in each]
    assert container["env"] == [{"name": "PGSERVICEFILE", "value": SERVICE_FILE}]
    [mounted] = [each for each in mounts if each["name"] == "postgresql"]
    # As a folder: a file that is mounted by subPath is never updated.
    assert SERVICE_FILE.startswith(mounted["mountPath"] + "/")
    assert "subPath" not in mounted


def test_each_role_has_a_secret_of_its_own() -> None:
    text = (FOLDER / "kustomization.yaml").read_text(encoding="utf-8")
    assert not [each for each in OBJECTS if each["kind"] == "Secret"]
    secrets = {
        name: {each["secret"]["secretName"] for each in pod["spec"]["volumes"] if "secret" in each}
        for name, pod in PODS.items()
    }
    assert secrets["migrate"] == {"wirelake-postgresql-owner"}
    assert "wirelake-postgresql-hub" in secrets["hub"]
    assert not secrets["hub"] & secrets["migrate"]
    assert all(each in text for each in secrets["hub"] | secrets["migrate"])
    assert load_config(POSTGRESQL).store.path == "postgresql:///?service=hub"
    [migrate] = PODS["migrate"]["spec"]["containers"]
    assert migrate["args"] == ["hub", "store", "migrate", "--store", "postgresql:///?service=owner"]
    # `options` parses groups of one level.
    assert "migrate" in load("hub").commands["store"].commands  # type: ignore[attr-defined]


def test_ports_are_the_enabled_listeners() -> None:
    config = load_config(POSTGRESQL)
    listeners = ("esnp", "tny", "relay", "magline", "comet", "admin")
    wanted = {each: config.table(each).port for each in listeners if config.table(each).enabled}
    [hub] = PODS["hub"]["spec"]["containers"]
    assert {each["name"]: each["containerPort"] for each in hub["ports"]} == wanted
    served = {
        each["name"]: each["port"]
        for name in ("wirelake-hub", "wirelake-admin")
        for each in one("Service", name)["spec"]["ports"]
    }
    assert served == wanted
    policy = one("NetworkPolicy")["spec"]
    assert {port["port"] for rule in policy["ingress"] for port in rule["ports"]} == set(wanted)


@pytest.mark.parametrize("name", PODS)
def test_only_the_name_service_and_postgresql_may_be_connected_to(name: str) -> None:
    policy = one("NetworkPolicy", f"wirelake-{name}")["spec"]
    assert policy["podSelector"] == {"matchLabels": PODS[name]["metadata"]["labels"]}
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert [[port["port"] for port in rule["ports"]] for rule in policy["egress"]] == [
        [53, 53],
        [5432],
    ]
    assert all(rule["to"] for rule in policy["egress"])


def test_what_both_variants_have_is_the_same() -> None:
    assert documents(FOLDER / "hub-services.yaml") == documents(BASE / "hub-services.yaml")
    assert documents(FOLDER / "service-account.yaml") == documents(BASE / "service-account.yaml")
    assert (
        documents(FOLDER / "network.yaml")[0]["spec"]["ingress"]
        == (documents(BASE / "network.yaml")[0]["spec"]["ingress"])
    )
