"""Guarantees of the Compose file, the image and the Makefile."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from app.settings import Settings

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).resolve().parents[3]
CONTRACT_TARGETS = {
    *(
        "help",
        "install",
        "run",
        "test",
        "test-all",
        "soak",
        "fuzz",
        "attack",
        "check",
        "cluster",
        "bench",
        "docs",
        "vendor",
    ),
    *("build", "clean"),
}


@pytest.fixture
def server() -> Any:
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))["services"]["palimpsest"]


@pytest.fixture
def dockerfile() -> str:
    return (ROOT / "Dockerfile").read_text("utf-8")


def test_compose_publishes_only_on_loopback(server: Any) -> None:
    assert server["ports"] == ["127.0.0.1:8000:8000"]
    assert "network_mode" not in server


def test_compose_requires_a_key(server: Any) -> None:
    # `:?` also refuses an empty value; `?` alone would accept it.
    assert re.fullmatch(r"\$\{PALIMPSEST_API_KEYS:\?.+\}", server["environment"]["PALIMPSEST_API_KEYS"])


def test_compose_contains_no_secret_values(server: Any) -> None:
    for name, value in server["environment"].items():
        if name.endswith(("_KEY", "_KEYS")):
            assert value.startswith(f"${{{name}:"), name


def test_compose_never_runs_commands_in_the_servers_container(server: Any) -> None:
    assert server["environment"]["PALIMPSEST_SANDBOX"] == "docker"
    assert "/var/run/docker.sock:/var/run/docker.sock" in server["volumes"]


def test_compose_keeps_the_data_and_drops_the_privileges(server: Any) -> None:
    assert "data:/data" in server["volumes"]
    assert server["cap_drop"] == ["ALL"]
    assert server["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in server


def test_compose_and_image_set_only_variables_that_exist(server: Any, dockerfile: str) -> None:
    known = {f"PALIMPSEST_{name.upper()}" for name in Settings.model_fields}
    names = {*server["environment"], *re.findall(r"\b(PALIMPSEST_[A-Z_]+)=", dockerfile)}
    assert {name for name in names if name.startswith("PALIMPSEST_")} <= known


def test_compose_allows_the_server_enough_time_to_stop(server: Any) -> None:
    grace = Settings.model_fields["shutdown_grace_s"].default
    assert int(server["stop_grace_period"].removesuffix("s")) > grace


def test_the_image_runs_without_root_and_has_a_health_check(dockerfile: str) -> None:
    last_stage = dockerfile.rsplit("\nFROM ", 1)[1]
    assert "\nUSER palimpsest\n" in last_stage
    assert "\nVOLUME /data\n" in last_stage
    assert re.search(r"\nHEALTHCHECK .*?/healthz", last_stage, re.DOTALL)
    assert "PALIMPSEST_HOST=0.0.0.0" in last_stage
    assert "API_KEYS=" not in dockerfile


def test_files_that_the_image_copies_are_in_the_build_context(dockerfile: str) -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    build_stage = dockerfile.rsplit("\nFROM ", 1)[0]
    copied = {word for line in re.findall(r"^COPY (.+)$", build_stage, re.MULTILINE) for word in line.split()[:-1]}
    assert copied == allowed


def test_every_target_of_the_makefile_is_explained() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    (phony,) = re.findall(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)
    assert set(phony.split()) == CONTRACT_TARGETS
    assert set(re.findall(r"^([a-z-]+):.*## \S", makefile, re.MULTILINE)) == CONTRACT_TARGETS


def test_hooks_use_the_environment_and_no_network() -> None:
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    assert repository["repo"] == "local"
    assert {hook["id"] for hook in repository["hooks"]} == {"ruff-check", "ruff-format", "mypy", "typos"}
    assert all(hook["language"] == "system" and hook["entry"].startswith(".venv/bin/") for hook in repository["hooks"])


def test_the_gate_is_a_valid_executable_script() -> None:
    gate = ROOT / ".ci" / "run"
    assert gate.stat().st_mode & 0o111
    subprocess.run(["bash", "-n", gate], check=True)
