"""The manifests: the schemas of Kubernetes, and whether names, ports and volumes fit together."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import kubernetes_validate
import pytest

from wirelake.hub.config import load_config

from .shipped import CONFIGS, DEPLOY, IMAGES, documents, options

FOLDER = DEPLOY / "kubernetes"
KUSTOMIZATION = documents(FOLDER / "kustomization.yaml")[0]
OBJECTS = [
    each
    for path in sorted(FOLDER.glob("*.yaml"))
    if path.name != "kustomization.yaml"
    for each in documents(path)
]
VERSIONS = ("1.30", "1.37")
"""The oldest and the newest Kubernetes that the manifests are checked against."""


def one(kind: str, name: str) -> dict[str, Any]:
    [found] = [
        each for each in OBJECTS if each["kind"] == kind and each["metadata"]["name"] == name
    ]
    return found


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    """The pods of each workload."""
    for each in OBJECTS:
        spec = each.get("spec", {})
        spec = spec["jobTemplate"]["spec"] if "jobTemplate" in spec else spec
        if "template" in spec:
            yield each["kind"], spec["template"]


PODS = dict(pods())


@pytest.mark.parametrize("version", VERSIONS)
def test_manifests_conform_to_the_schemas(version: str) -> None:
    for each in OBJECTS:
        kubernetes_validate.validate(each, version, strict=True)


def test_schema_check_can_fail() -> None:
    wrong = copy.deepcopy(one("StatefulSet", "wirelake-hub"))
    wrong["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[-1], strict=True)


def test_everything_is_applied_but_the_lakes_alternative() -> None:
    there = {path.name for path in FOLDER.glob("*.yaml")} - {"kustomization.yaml"}
    assert there - set(KUSTOMIZATION["resources"]) == {"lake-deployment.yaml"}
    assert set(KUSTOMIZATION["resources"]) <= there
    assert KUSTOMIZATION["configMapGenerator"] == [{"name": "wirelake-hub", "files": ["hub.toml"]}]
    assert {f"{each['name']}:{each['newTag']}" for each in KUSTOMIZATION["images"]} == IMAGES


@pytest.mark.parametrize("kind", PODS)
def test_pods_have_few_privileges(kind: str) -> None:
    pod = PODS[kind]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for each in pod["containers"]:
        held = each["securityContext"]
        assert held["readOnlyRootFilesystem"] is True
        assert held["allowPrivilegeEscalation"] is False
        assert held["capabilities"] == {"drop": ["ALL"]}
        assert "memory" in each["resources"]["limits"]
        assert each["image"] in IMAGES


@pytest.mark.parametrize("kind", PODS)
def test_commands_and_mounts_fit(kind: str) -> None:
    pod = PODS[kind]["spec"]
    [container] = pod["containers"]
    claims = {each["metadata"]["name"] for each in pods_claims(kind)}
    volumes = {each["name"] for each in pod["volumes"]} | claims
    assert {each["name"] for each in container["volumeMounts"]} == volumes
    mounted = [each["mountPath"] for each in container["volumeMounts"]]
    said = [each for each in options(container["args"]).values() if str(each).startswith("/")]
    assert len(said) == 2
    assert all(any(str(each).startswith(path) for path in mounted) for each in said)


def pods_claims(kind: str) -> list[dict[str, Any]]:
    """Claims that a workload makes for its pods."""
    [found] = [each for each in OBJECTS if each["kind"] == kind]
    claims: list[dict[str, Any]] = found["spec"].get("volumeClaimTemplates", [])
    return claims


@pytest.mark.parametrize("kind", PODS)
def test_references_of_pods_exist(kind: str) -> None:
    pod = PODS[kind]["spec"]
    one("ServiceAccount", pod["serviceAccountName"])
    for each in pod["volumes"]:
        if "persistentVolumeClaim" in each:
            one("PersistentVolumeClaim", each["persistentVolumeClaim"]["claimName"])
        if "configMap" in each:
            assert each["configMap"]["name"] == "wirelake-hub"


def test_secrets_are_named_and_not_shipped() -> None:
    assert not [each for each in OBJECTS if each["kind"] == "Secret"]
    volumes = PODS["StatefulSet"]["spec"]["volumes"]
    named = {each["secret"]["secretName"] for each in volumes if "secret" in each}
    assert named == {"wirelake-tls", "wirelake-admin"}
    text = (FOLDER / "kustomization.yaml").read_text(encoding="utf-8")
    assert all(each in text for each in named)


def test_ports_are_the_enabled_listeners() -> None:
    config = load_config(CONFIGS["kubernetes"])
    listeners = ("esnp", "tny", "relay", "magline", "comet", "admin")
    wanted = {each: config.table(each).port for each in listeners if config.table(each).enabled}
    [hub] = PODS["StatefulSet"]["spec"]["containers"]
    assert {each["name"]: each["containerPort"] for each in hub["ports"]} == wanted
    served = {
        each["name"]: each["port"]
        for name in ("wirelake-hub", "wirelake-admin")
        for each in one("Service", name)["spec"]["ports"]
    }
    assert served == wanted
    let_in = {
        each["port"]
        for rule in one("NetworkPolicy", "wirelake-hub")["spec"]["ingress"]
        for each in rule["ports"]
    }
    assert let_in == set(wanted)


def test_selectors_select_the_pods() -> None:
    for each in OBJECTS:
        spec = each.get("spec", {})
        labels = PODS["StatefulSet" if "hub" in each["metadata"]["name"] else "CronJob"]
        for key in ("selector", "podSelector"):
            wanted = spec.get(key, {}).get("matchLabels") or spec.get(key, {})
            if each["metadata"]["name"] == "wirelake-admin":
                labels = PODS["StatefulSet"]
            if key in spec:
                assert wanted
                assert wanted.items() <= labels["metadata"]["labels"].items()
    assert one("StatefulSet", "wirelake-hub")["spec"]["serviceName"] == "wirelake-hub-pods"
    assert one("Service", "wirelake-hub-pods")["spec"]["clusterIP"] == "None"


def test_probes_use_the_admin_port() -> None:
    config = load_config(CONFIGS["kubernetes"])
    [hub] = PODS["StatefulSet"]["spec"]["containers"]
    pages = {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}
    for probe, page in pages.items():
        command = hub[probe]["exec"]["command"]
        assert command[:3] == ["python", "/opt/wirelake/health.py", page]
        assert f"https://127.0.0.1:{config.admin.port}" in command
        assert command[-1] == options(hub["args"])["data"]
    scraped = PODS["StatefulSet"]["metadata"]["annotations"]
    assert scraped["prometheus.io/port"] == str(config.admin.port)
    patience = PODS["StatefulSet"]["spec"]["terminationGracePeriodSeconds"]
    assert patience > config.limits.drain_s + 5


def test_the_lake_reads_the_recordings_of_the_hub() -> None:
    folder = load_config(CONFIGS["kubernetes"]).record.folder
    for kind in ("CronJob", "Deployment"):
        [lake] = PODS[kind]["spec"]["containers"]
        said = options(lake["args"])
        assert said["captures"] == folder
        assert said["stream"] == (kind == "Deployment")
        assert {"name": "recordings", "mountPath": folder, "readOnly": True} in lake["volumeMounts"]
        [near] = PODS[kind]["spec"]["affinity"]["podAffinity"][
            "requiredDuringSchedulingIgnoredDuringExecution"
        ]
        wanted = near["labelSelector"]["matchLabels"]
        assert wanted.items() <= PODS["StatefulSet"]["metadata"]["labels"].items()
