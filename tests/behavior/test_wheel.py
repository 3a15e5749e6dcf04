"""The wheel alone in an empty environment and directory: it contains everything the service needs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from uv import find_uv_bin

from app import __version__
from tests.requirements import need

ROOT = Path(__file__).resolve().parents[2]
KEPT = ("PATH", "HOME", "LANG", "PIP_INDEX_URL", "PIP_CONFIG_FILE", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST")
KEPT_ALSO = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE")

pytestmark = [pytest.mark.slow, pytest.mark.extended, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel named by `PALIMPSEST_TEST_WHEEL`, else one built here."""
    given = os.environ.get("PALIMPSEST_TEST_WHEEL")
    if given:
        return Path(given)
    folder = tmp_path_factory.mktemp("dist")
    pip(sys.executable, "wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT))
    (built,) = folder.glob("palimpsest-*.whl")
    return built


def pip(python: str | Path, *arguments: str) -> None:
    command = [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr


@dataclass(frozen=True)
class Installation:
    """An environment with only the wheel and its dependencies, and an empty working directory."""

    bin: Path
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in (*KEPT, *KEPT_ALSO) if name in os.environ}
        return {**kept, "HOME": str(self.folder), "PALIMPSEST_DATA_DIR": str(self.folder / "data")}

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
        )


@pytest.fixture(scope="module")
def installation(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder / "venv")
    found = Installation(folder / "venv" / "bin", folder / "empty")
    found.folder.mkdir()
    # In a thirtieth of the CPU time that pip takes.
    command = [find_uv_bin(), "pip", "install", "--quiet", "--python", str(found.bin / "python"), str(wheel)]
    if subprocess.run(command, timeout=300).returncode != 0:
        # It does not read pip's configuration, which may name another index.
        pip(sys.executable, "--python", str(found.bin / "python"), "install", "--no-compile", str(wheel))
    return found


@pytest.fixture
def served(installation: Installation) -> Iterator[str]:
    """The URL of a server of this installation, with bubblewrap."""
    need("bubblewrap")
    process = subprocess.Popen(
        [str(installation.bin / "palimpsest"), "serve", "--port", "0"],
        cwd=installation.folder,
        env={**installation.environment, "PALIMPSEST_SANDBOX": "bubblewrap"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+", said)
        if found is None:
            process.kill()
            pytest.fail(f"the server did not start: {said} {process.communicate()}")
        yield found[0]
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)


def test_the_content_of_the_wheel(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    data = (("app/static", "*"), ("app/context/templates", "*.md"), ("evals/histories", "*.gz"))
    for folder, pattern in (("app", "*.py"), *data):
        expected = {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob(pattern) if path.is_file()}
        assert expected
        assert {name for name in expected if "__pycache__" not in name} <= names
    manifest = json.loads((ROOT / "app" / "static" / "vendor" / "manifest.json").read_text("utf-8"))
    vendored = {file for name, entry in manifest.items() for file in (name, entry["license"])}
    assert {f"app/static/vendor/{file}" for file in vendored} <= names
    revisions = {path.name for path in (ROOT / "migrations" / "versions").glob("*.py")}
    assert {f"app/_migrations/versions/{name}" for name in revisions} <= names
    assert "app/_migrations/env.py" in names
    strangers = [
        name for name in names if not re.match(rf"(app|evals|palimpsest-{re.escape(__version__)}\.dist-info)/", name)
    ]
    assert strangers == []
    assert not [name for name in names if name.endswith(".pyc") or "/tests/" in name or name.endswith(".env")]


def test_help_and_version(installation: Installation) -> None:
    version = installation.run("palimpsest", "--version")
    assert (version.returncode, __version__ in version.stdout) == (0, True)
    shown = installation.run("palimpsest", "--help")
    assert shown.returncode == 0
    assert "serve" in shown.stdout
    as_module = installation.run("python", "-m", "app", "--help")
    assert (as_module.returncode, "serve" in as_module.stdout) == (0, True)


def test_the_demo_runs(served: str, installation: Installation) -> None:
    with httpx.Client(base_url=served, trust_env=False, timeout=60) as http:
        http.get("/readyz").raise_for_status()
        answer = http.post(
            "/v1/sessions", json={"task": "Write a script."}, headers={"Accept": "text/event-stream"}
        ).raise_for_status()
        events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
        session = http.get(f"/v1/sessions/{answer.headers['session-id']}").json()
        assert (session["outcome"], session["model"], session["sandbox"]["kind"]) == (
            "completed",
            "scripted/demo",
            "bubblewrap",
        )
        assert events[-1]["outcome"] == "completed"
        assert session["steps"] > 1
        listed = http.get(f"/v1/sessions/{session['id']}/files").json()["items"]
        assert listed
        page = http.get("/")
        assert page.text.lower().startswith("<!doctype html>")
        assets = re.findall(r"""(?:src|href)="(/static/[^"]+)""", page.text)
        names = [asset.split("/", 3)[3] for asset in assets]
        assert {"bundle/page/start.js", "bundle/page/main.js", "bundle/page/page.css"} <= set(names)
        for asset in (*assets, "/static/bundle/worker.js", "/static/main.js", "/static/vendor/licenses/preact.txt"):
            assert http.get(asset).status_code == 200, asset
        assert http.get("/openapi.json").json()["info"]["version"] == __version__
        assert "palimpsest_runs_total" in http.get("/metrics").text
    assert (installation.folder / "data" / "palimpsest.db").is_file()
