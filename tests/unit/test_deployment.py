"""The files to deploy a cluster with: valid, complete, and in keeping with the code's times and settings. What Compose
itself checks of its file is in the gate."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from app.bootstrap.workspaces import MIN_STORE_S
from app.cluster.worker import ENDING_S
from app.settings import Settings

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
LEFT_OUT = {"kustomization.yaml", "secret.example.yaml"}
VERSIONS = ("1.34", "1.37")
"""The oldest one that has user namespaces for pods by default and a pause before their end, and the newest."""

FOREIGN = {"FORWARDED_ALLOW_IPS", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "OPENROUTER_API_KEY"}
"""Variables that others read: uvicorn, the store's client and a provider's `api_key_env`."""


def _documents(path: Path) -> Iterator[dict[str, Any]]:
    yield from yaml.safe_load_all(path.read_text())


MANIFESTS = [
    pytest.param(document, id=f"{path.name}-{document['kind']}")
    for path in sorted(FOLDER.glob("*.yaml"))
    if path.name != "kustomization.yaml"
    for document in _documents(path)
]


def _workload(kind: str) -> dict[str, Any]:
    found = [document for path in FOLDER.glob("*.yaml") for document in _documents(path) if document["kind"] == kind]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("manifest", MANIFESTS)
def test_manifests_fit_the_schemas(manifest: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(manifest, version, strict=True)


def test_kustomize_takes_all_manifests() -> None:
    listed = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["resources"]
    assert sorted(listed) == sorted({path.name for path in FOLDER.glob("*.yaml")} - LEFT_OUT)


def _known() -> set[str]:
    aliases = {"OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"}
    return {*Settings.variables(), *aliases, *FOREIGN}


@pytest.mark.parametrize(("kind", "part"), [("ConfigMap", "data"), ("Secret", "stringData")])
def test_manifests_set_only_settings(kind: str, part: str) -> None:
    assert set(_workload(kind)[part]) <= _known()


def _end_s(drain_s: float) -> float:
    """Seconds that a worker may take from SIGTERM to its end."""
    grace = Settings.model_fields["shutdown_grace_s"].default
    return drain_s + ENDING_S + float(grace) + max(MIN_STORE_S, float(grace))


def test_pods_have_the_time_to_end() -> None:
    drain_s = float(_workload("ConfigMap")["data"]["PALIMPSEST_DRAIN_S"])
    for kind, least in (("StatefulSet", _end_s(drain_s)), ("Deployment", _end_s(0))):
        assert _workload(kind)["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] > least


@pytest.mark.parametrize("kind", ["StatefulSet", "Deployment"])
def test_pods_have_no_more_rights_than_the_sandbox_needs(kind: str) -> None:
    pod = _workload(kind)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert not pod["automountServiceAccountToken"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert not container["securityContext"].get("privileged")
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert not [volume for volume in pod["volumes"] if "hostPath" in volume]


def _compose() -> dict[str, Any]:
    file: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.cluster.yml").read_text())
    return file


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+)s", text)
    assert found is not None
    return float(found[1])


def test_compose_sets_only_settings_and_gives_nodes_the_time_to_end() -> None:
    services = _compose()["services"]
    nodes = {name: service for name, service in services.items() if service["image"] == "palimpsest"}
    assert sorted(nodes) == ["api-1", "api-2", "worker"]
    for service in nodes.values():
        assert set(service["environment"]) <= _known()
    drain_s = float(nodes["worker"]["environment"]["PALIMPSEST_DRAIN_S"])
    assert _seconds(nodes["worker"]["stop_grace_period"]) > _end_s(drain_s)
    assert _seconds(nodes["api-1"]["stop_grace_period"]) > _end_s(0)


def test_compose_publishes_nothing_but_the_proxy_on_loopback() -> None:
    services = _compose()["services"]
    published = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert published == {"proxy": ["127.0.0.1:8000:8000"]}


def test_images_of_others_have_a_version() -> None:
    images = {service["image"] for service in _compose()["services"].values()} - {"palimpsest"}
    assert all(re.search(r":\d+\.\d+", image) for image in images), images
