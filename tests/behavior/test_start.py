"""Startup and its failures: a sentence and an exit status, never a traceback."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.server import bind
from tests.behavior.conftest import StartServer
from tests.behavior.harness import Client, settings_for
from tests.behavior.preloaded import fork, start
from tests.behavior.process import ROOT, ServerProcess
from tests.databases import database_environment, make_database, opened
from tests.provider import FakeProvider, Gate, Reply, Text, ToolCall
from tests.requirements import need

Serve = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    """Runs `python -m app serve` in an empty directory, for settings that make it exit; `before` is a program that
    starts it, `files` are its limits of open files."""

    def run(
        *arguments: str, before: tuple[str, ...] = (), files: tuple[int, int] | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        (tmp_path / "home").mkdir(exist_ok=True)
        usual = {"PALIMPSEST_DATA_DIR": str(tmp_path / "data"), "PALIMPSEST_SANDBOX": "bubblewrap"}
        usual |= database_environment(tmp_path / "data")
        place: Any = {"env": {**os.environ, "PYTHONPATH": str(ROOT), **usual, **environment}, "cwd": tmp_path / "home"}
        arguments = ("serve", *(arguments or ("--port", "0")))
        if before:
            argv = [*before, sys.executable, "-m", "app", *arguments]
            return subprocess.run(argv, capture_output=True, text=True, timeout=40, **place)
        with TemporaryFile("w+") as stderr:
            process = start(arguments, stderr=stderr.fileno(), files=files, **place)
            assert process.stdout is not None
            with process.stdout as stdout:
                code = process.wait(40)
                stderr.seek(0)
                return subprocess.CompletedProcess(arguments, code, stdout.read(), stderr.read())

    return run


def assert_not_started(ended: subprocess.CompletedProcess[str], code: str, *words: str) -> None:
    assert ended.returncode not in (0, -signal.SIGKILL)
    assert ended.stdout == ""
    assert "Traceback" not in ended.stderr
    assert f"({code})" in ended.stderr
    for word in words:
        assert word in ended.stderr


def test_a_port_in_use(serve: Serve) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert_not_started(serve("--port", port), "port_in_use", port, "--port")


@dataclass(frozen=True)
class Refused:
    """Invalid settings and the server's error."""

    setting: str
    value: str
    code: str
    word: str


REFUSED = (
    Refused("PALIMPSEST_HOST", "0.0.0.0", "key_required", "PALIMPSEST_API_KEYS"),
    Refused("PALIMPSEST_HOST", "::", "key_required", "loopback"),
    Refused("PALIMPSEST_ALLOWED_HOSTS", "a/b", "invalid_settings", "PALIMPSEST_ALLOWED_HOSTS"),
    Refused("PALIMPSEST_MODELS", "{", "invalid_settings", "PALIMPSEST_MODELS"),
    Refused("PALIMPSEST_SANDBOX", "chroot", "invalid_settings", "PALIMPSEST_SANDBOX"),
    Refused("PALIMPSEST_MODEL", "foo/x", "invalid_settings", "PALIMPSEST_MODEL"),
    Refused("PALIMPSEST_MODEL", "gpt-5", "invalid_settings", "'gpt-5'"),
    Refused("PALIMPSEST_MODEL", "scripted/other", "invalid_settings", "PALIMPSEST_MODEL"),
    Refused("PALIMPSEST_COMPACTION", "magic", "invalid_compaction", "policy"),
    Refused("PALIMPSEST_DATA_DIR", "/proc/nothing/here", "storage_unavailable", "/proc/nothing/here"),
    Refused("PALIMPSEST_DATABASE_URL", "sqlite:////proc/version", "storage_unavailable", "/proc/version"),
    Refused(
        "PALIMPSEST_DATABASE_URL", "postgresql://x:secret@127.0.0.1:1/y", "storage_unavailable", "y at 127.0.0.1:1"
    ),
    Refused("PALIMPSEST_DATABASE_URL", "mysql://localhost/x", "storage_unavailable", "SQLite"),
)


@pytest.mark.parametrize("refused", REFUSED, ids=lambda r: f"{r.setting}={r.value}")
def test_invalid_settings(serve: Serve, refused: Refused) -> None:
    ended = serve(**{refused.setting: refused.value})
    assert_not_started(ended, refused.code, refused.word)


def test_more_readers_than_open_files_allow(serve: Serve) -> None:
    ended = serve(files=(600, 600), PALIMPSEST_MAX_READERS="1000")
    assert_not_started(ended, "invalid_settings", "PALIMPSEST_MAX_READERS", "600 open files", "236 readers")


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (None, "cannot be read: No such file or directory"),
        (b" \n", "is empty"),
        (b"### \xff", "is not UTF-8"),
        (b"#" * 8193, "is larger than 8 KiB"),
    ],
)
def test_a_summary_template_that_cannot_be_used(
    serve: Serve, tmp_path: Path, content: bytes | None, fault: str
) -> None:
    file = tmp_path / "sections.md"
    if content is not None:
        file.write_bytes(content)
    ended = serve(PALIMPSEST_SUMMARY_TEMPLATE_FILE=str(file))
    assert_not_started(ended, "invalid_settings", "PALIMPSEST_SUMMARY_TEMPLATE_FILE", f"{file} {fault}")
    assert len(ended.stderr.splitlines()) == 1


def test_a_missing_system_prompt_file(serve: Serve, tmp_path: Path) -> None:
    ended = serve(PALIMPSEST_SYSTEM_PROMPT_FILE=str(tmp_path / "absent.md"))
    assert_not_started(ended, "invalid_settings", "PALIMPSEST_SYSTEM_PROMPT_FILE", "absent.md cannot be read")


@pytest.mark.parametrize(("kind", "level"), [("auto", "info"), ("docker", "warning")])
def test_unused_sandboxes_are_reported_after_the_greeting(tmp_path: Path, kind: str, level: str) -> None:
    """A start without a Docker Engine is not a problem if bubblewrap works."""
    need("bubblewrap")
    nowhere = f"unix://{tmp_path / 'absent.sock'}"
    environment = {"PALIMPSEST_DATA_DIR": str(tmp_path / "data"), "PALIMPSEST_SANDBOX": kind, "DOCKER_HOST": nowhere}
    reader, writer = os.pipe()
    with open(os.devnull) as nothing:
        streams = (nothing.fileno(), writer, writer)
        server = fork(["serve", "--port", "0"], env={**os.environ, **environment}, cwd=tmp_path, streams=streams)
    os.close(writer)
    with open(reader) as said:
        lines: list[str] = []
        for line in said:
            lines.append(line)
            if line.startswith("{"):
                break
        server.send_signal(signal.SIGINT)
        lines += said.readlines()
    server.wait(40)
    assert lines[0].startswith("Palimpsest "), "".join(lines)
    first = next(place for place, line in enumerate(lines) if line.startswith("{"))
    assert "Ctrl-C stops the server." in lines[first - 1]
    assert any(line.startswith("  sandbox  none: ") for line in lines[:first]) == (kind == "docker")
    logged, *ending = [json.loads(line) for line in lines[first:]]
    assert [line["event"] for line in ending] == ["stopping", "stopped"]
    assert (logged["event"], logged["level"], logged["kind"]) == ("sandbox_left_out", level, "docker")
    assert nowhere in logged["reason"]


def test_a_host_network_without_keys_is_refused(serve: Serve) -> None:
    ended = serve(PALIMPSEST_SANDBOX="bubblewrap", PALIMPSEST_SANDBOX_NETWORK="on")
    assert_not_started(ended, "key_required", "PALIMPSEST_API_KEYS", "network")


async def test_suspicious_settings_are_reported_once_without_stopping_the_start(
    tmp_path: Path, provider: FakeProvider
) -> None:
    data = make_database(tmp_path / "data" / "palimpsest.db").parent
    data.chmod(0o750)
    (tmp_path / ".env").write_text("PALIMPSEST_MODEL_NAME=secret-one\nPALIMPSEST_QUEUE_LIMIT=5\nPALIMPSEST_URL=x\n")
    more = {"PALIMPSEST_TEST_OF_OURS": "1", "PALIMPSEST_XYZZY": "secret-two"}
    with ServerProcess(data, provider, "local-unsafe", "", more) as server:
        async with Client(server.url) as client:
            await client.run("say hello")
        assert await asyncio.to_thread(server.end, signal.SIGTERM) in (0, -signal.SIGTERM)
        warned = [line for line in map(json.loads, server.log.splitlines()) if line["level"] == "warning"]
    assert [line["event"] for line in warned] == ["unknown_setting", "unknown_setting", "data_dir_open_to_others"]
    misspelt, unlike, loose = warned
    assert (misspelt["variable"], misspelt["did_you_mean"]) == ("PALIMPSEST_MODEL_NAME", "PALIMPSEST_MODEL")
    assert (unlike["variable"], "did_you_mean" in unlike) == ("PALIMPSEST_XYZZY", False)
    assert (loose["mode"], loose["remedy"]) == ("0750", f"chmod 700 {data}")
    assert "secret" not in server.log
    assert data.stat().st_mode & 0o777 == 0o750, "it is the operator's to change"


def test_a_misspelled_setting_is_named_before_the_startup_error(serve: Serve) -> None:
    ended = serve(PALIMPSEST_HOST="0.0.0.0", PALIMPSEST_APIKEYS="secret-of-mine")
    assert_not_started(ended, "key_required", "PALIMPSEST_APIKEYS")
    named, sentence = ended.stderr.splitlines()
    assert json.loads(named)["did_you_mean"] == "PALIMPSEST_API_KEYS"
    assert sentence.endswith("(key_required)")
    assert "secret-of-mine" not in ended.stderr


def test_an_address_of_another_machine(serve: Serve) -> None:
    ended = serve("--host", "192.0.2.1", "--port", "0", PALIMPSEST_API_KEYS="k" * 20)
    assert_not_started(ended, "cannot_listen", "192.0.2.1", "--host")


@pytest.mark.sqlite
def test_a_file_that_is_not_a_database(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "palimpsest.db").write_bytes(b"not a database" * 1000)
    assert_not_started(serve(), "storage_unavailable", "palimpsest.db")
    assert (tmp_path / "data" / "palimpsest.db").read_bytes().startswith(b"not a database")


def test_a_database_of_a_newer_version(serve: Serve, start_server: StartServer, tmp_path: Path) -> None:
    start_server().stop()
    with opened(tmp_path / "data" / "palimpsest.db") as database:
        database.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    assert_not_started(serve(), "storage_unavailable", "9999", "newer version")


READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
"""In a separate mount namespace, since permissions do not restrict root."""


def can_unshare() -> bool:
    return (
        shutil.which("unshare") is not None and subprocess.run(["unshare", "-m", "true"], check=False).returncode == 0
    )


@pytest.mark.sqlite
@pytest.mark.slow
async def test_a_read_only_data_directory(serve: Serve, start_server: StartServer, tmp_path: Path) -> None:
    if not await asyncio.to_thread(can_unshare):
        pytest.skip("a mount namespace cannot be made here")
    first = start_server()
    async with Client(first.url) as client:
        session, _ = await client.run("say hello")
        messages = await client.messages(session["id"])
    await asyncio.to_thread(first.stop)
    before = ("unshare", "-m", "sh", "-c", READ_ONLY, str(tmp_path / "data"))
    ended = await asyncio.to_thread(serve, "--port", "0", before=before)
    assert_not_started(ended, "storage_unavailable", str(tmp_path / "data"))
    elsewhere = {
        "PALIMPSEST_DATA_DIR": str(tmp_path / "elsewhere"),
        "PALIMPSEST_DATABASE_URL": f"sqlite:///{tmp_path / 'data' / 'palimpsest.db'}",
    }
    ended = await asyncio.to_thread(serve, "--port", "0", before=before, **elsewhere)
    assert_not_started(ended, "storage_unavailable", "palimpsest.db")
    async with Client((await asyncio.to_thread(start_server)).url) as client:
        assert await client.messages(session["id"]) == messages


@pytest.mark.bubblewrap
@pytest.mark.parametrize("signal_", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_server_gracefully(
    tmp_path: Path, provider: FakeProvider, sandbox_image: str, signal_: signal.Signals
) -> None:
    with ServerProcess(tmp_path / "data", provider, "bubblewrap", sandbox_image) as server:
        async with Client(server.url) as client:
            await client.run("say hello")
        assert await asyncio.to_thread(server.end, signal_) in (0, -signal_)
        assert "Traceback" not in server.log


async def test_health_and_metrics(client: Client, provider: FakeProvider) -> None:
    assert (await client.get("/healthz"))["status"] == "ok"
    ready = await client.get("/readyz")
    assert (ready["ready"], sorted(ready["components"])) == (True, ["database", "disk", "provider", "sandbox"])
    provider.script(Reply(Gate("wait"), Text("Hello.")))
    session = await client.create("say hello")
    await provider.reached("wait")
    during = await numbers(client)
    assert (during["palimpsest_running_sessions"], during["palimpsest_channels"]) == (1, 1)
    provider.open("wait")
    await client.until_idle(session["id"])
    after = await numbers(client)
    usage = (await client.session(session["id"]))["usage"]
    assert after['palimpsest_steps_total{finish_reason="stop"}'] == 1
    assert after['palimpsest_runs_total{outcome="completed"}'] == 1
    assert after['palimpsest_messages_queued_total{mode="steer"}'] == 1
    for kind in ("input", "output"):
        assert after[f'palimpsest_tokens_total{{kind="{kind}"}}'] == usage[f"{kind}_tokens"] > 0
    assert after["palimpsest_database_commits_total"] > during["palimpsest_database_commits_total"] > 0
    assert after["process_resident_memory_bytes"] > 1e6


async def test_names_invented_by_a_model_are_not_labels(client: Client, provider: FakeProvider) -> None:
    calls = (ToolCall("write_file", {"path": "a", "content": "x"}), ToolCall('fly{x="1"}\n', {}), ToolCall("fly", {}))
    provider.script(Reply(*calls), Reply(Text("Done.")))
    await client.run("call what is not there")
    found = await numbers(client)
    assert found['palimpsest_tool_calls_total{status="completed",tool="write_file"}'] == 1
    assert found['palimpsest_tool_calls_total{status="error",tool="other"}'] == 2
    assert not [name for name in found if "fly" in name]


async def numbers(client: Client) -> dict[str, float]:
    """All samples of `/metrics`, as Prometheus' own parser reads them."""
    answer = await client.http.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = {}
    for family in text_string_to_metric_families(answer.text):
        assert family.documentation
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


async def at_rest(client: Client) -> None:
    """Waits until no session has an owner."""
    async with asyncio.timeout(60):
        while (await numbers(client))["palimpsest_running_sessions"]:
            pass


async def test_accepted_connections_send_small_answers_at_once(tmp_path: Path, provider: FakeProvider) -> None:
    delayed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = writer.get_extra_info("socket")
        delayed.set_result(not connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    with bind(settings_for(tmp_path / "data", provider, "bubblewrap")) as listener:
        async with await asyncio.start_server(accept, sock=listener):
            _, writer = await asyncio.open_connection(*listener.getsockname())
            assert not await delayed
            writer.close()
