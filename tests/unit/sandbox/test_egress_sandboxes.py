"""Sandboxes that reach some hosts alone: what is in them, how refusals are reported, and what is left at their end."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from app.errors import SandboxError, SandboxUnavailableError
from app.sandbox.base import SandboxConfig, SandboxFactory
from app.sandbox.docker.container import can_be_entered
from app.sandbox.egress import PORT
from app.sandbox.egress.listener import open_listener
from app.sandbox.host.local import LocalFactory
from tests.unit.sandbox.conftest import make_factory
from tests.unit.sandbox.shell import Shell, new_config, unique_seconds, until_sleeping

ASK = r"""
ask() {
    request="GET http://$1/ HTTP/1.1\r\nHost: a\r\n\r\n"
    if [ -n "${BASH_VERSION:-}" ]; then
        timeout 4 bash -c 'exec 3<>/dev/tcp/127.0.0.1/3128 && printf "$0" >&3 && cat <&3' "$request"
    else printf "$request" | timeout 4 nc -w 3 127.0.0.1 3128; fi
}
"""
UNLISTED = "it is not among the session's allowed_hosts"


def config() -> SandboxConfig:
    return replace(new_config(), allowed_hosts=("packages.example.com",))


@pytest_asyncio.fixture
async def kinds(walled_kind: str, data_dir: Path, instance_id: str) -> AsyncIterator[SandboxFactory]:
    factory = make_factory(walled_kind, data_dir, instance_id)
    yield factory
    await factory.remove_orphans(set())
    await factory.aclose()


@pytest_asyncio.fixture
async def box(kinds: SandboxFactory) -> AsyncIterator[Shell]:
    sandbox = kinds.open(config())
    yield Shell(sandbox)
    await sandbox.remove()


async def test_there_is_nothing_but_loopback_and_the_proxy(box: Shell) -> None:
    ran = await box.run("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '; tail -n +2 /proc/net/route")
    assert ran.out.split() == ["lo"]
    ran = await box.run(
        "cat /proc/net/tcp /proc/net/tcp6 /proc/net/udp | grep -c ' 0A '; echo $https_proxy $HTTP_PROXY"
    )
    assert ran.out.split() == ["1", *[f"http://127.0.0.1:{PORT}"] * 2]


async def test_a_result_reports_only_refusals_of_its_command(box: Shell, kinds: SandboxFactory) -> None:
    before = kinds.refused_connections
    first = await box.run(f"{ASK} ask evil.example.net; ask evil.example.net; ask 127.0.0.1")
    assert first.out.count(f"evil.example.net was refused: {UNLISTED}") == 2
    evil, literal = first.result.refused_hosts
    assert evil == f"evil.example.net was refused: {UNLISTED}"
    assert literal.startswith("127.0.0.1 was refused: only full host names")
    assert (await box.run("true")).result.refused_hosts == ()
    assert kinds.refused_connections - before == 3


async def test_an_allowed_host_is_not_refused(box: Shell) -> None:
    ran = await box.run(f"{ASK} ask packages.example.com")
    assert "502 Bad Gateway" in ran.out or "403" not in ran.out
    assert UNLISTED not in ran.out


async def test_sessions_have_a_proxy_each(kinds: SandboxFactory) -> None:
    """At the same time, and each holds its own list."""
    one, other = kinds.open(config()), kinds.open(replace(config(), allowed_hosts=("evil.example.net",)))
    try:
        ran = await asyncio.gather(*(Shell(box).run(f"{ASK} ask evil.example.net") for box in (one, other)))
        assert [UNLISTED in each.out for each in ran] == [True, False]
    finally:
        await one.remove()
        await other.remove()


@pytest.mark.parametrize("end", ["timeout", "cancel", "stop"])
async def test_nothing_is_left_open_in_the_server(box: Shell, end: str) -> None:
    await box.run("true")  # what is opened once, such as the Engine's connection, is open now
    await box.sandbox.stop()
    before = await asyncio.to_thread(_tcp_sockets)
    seconds = unique_seconds()
    command = f"{ASK} ask evil.example.net; (sleep 20 | timeout 20 nc 127.0.0.1 {PORT}) & sleep {seconds}"
    running = asyncio.create_task(box.run(command, timeout_s=1 if end == "timeout" else 30))
    await until_sleeping(seconds)
    if end == "cancel":
        running.cancel()
    if end == "stop":
        await box.sandbox.stop()
    await asyncio.wait({running})
    if end == "timeout":
        assert running.result().result.refused_hosts, "what was refused until then is not told"
    await box.sandbox.stop()
    assert await asyncio.to_thread(_tcp_sockets) == before


def _tcp_sockets() -> int:
    """How many this process has open, listening ones too, in whatever network."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                with socket.socket(fileno=os.dup(int(name))) as one:
                    found += one.family == socket.AF_INET
    return found


async def test_a_new_network_works_after_a_stop(box: Shell) -> None:
    for _ in range(2):
        assert UNLISTED in (await box.run(f"{ASK} ask evil.example.net")).out
        await box.sandbox.stop()


def test_the_network_of_the_server_is_never_entered() -> None:
    with pytest.raises(PermissionError, match="shares the server's network"):
        open_listener(os.getpid())


def test_a_network_inside_a_user_namespace_is_entered(bubblewrap: None) -> None:
    """As bubblewrap makes them where the server is not root; loopback is down in there, as it may be then."""
    argv = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", "echo ready; read -r end"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        with open_listener(process.pid) as listener:
            assert listener.getsockname() == ("127.0.0.1", PORT)
            assert not os.get_inheritable(listener.fileno())
            with pytest.raises(OSError, match="in use"):
                open_listener(process.pid)
        process.communicate(b"end\n")


def test_an_unrelated_process_is_never_entered() -> None:
    """On another machine the number is another process's."""
    with pytest.raises(ProcessLookupError, match="not run on this machine"):
        open_listener(os.getpid(), "/0123456789abcdef/")


@pytest.mark.parametrize("host", ["tcp://10.0.0.1:2375", "http://x", "unix:///nowhere/docker.sock", "unix://", ""])
def test_an_engine_elsewhere_cannot_be_entered(host: str) -> None:
    assert not can_be_entered(host)


def test_local_unsafe_refuses_allowed_hosts(data_dir: Path) -> None:
    assert not LocalFactory(data_dir).network_can_be_limited
    with pytest.raises(SandboxUnavailableError, match="network of this machine") as caught:
        LocalFactory(data_dir).open(config())
    assert caught.value.code == "allowed_hosts_unavailable"


# containers, which outlive a command


@pytest_asyncio.fixture
async def container(docker: None, data_dir: Path, instance_id: str) -> AsyncIterator[Shell]:
    factory = make_factory("docker", data_dir, instance_id)
    sandbox = factory.open(config())
    yield Shell(sandbox)
    await sandbox.remove()
    await factory.aclose()


async def test_background_processes_keep_the_proxy(container: Shell) -> None:
    await container.run(
        f"{ASK} (until [ -e go ]; do sleep 0.05; done; ask evil.example.net >answer 2>&1; echo >done) &"
    )
    ran = await container.run("touch go; until [ -e done ]; do sleep 0.05; done; cat answer")
    assert UNLISTED in ran.out


async def test_a_restarted_container_gets_a_new_proxy(container: Shell) -> None:
    """As after its end because it ran out of memory."""
    await container.run("true")
    await container.sandbox._engine.kill(container.sandbox._name)  # type: ignore[attr-defined]
    assert UNLISTED in (await container.run(f"{ASK} ask evil.example.net")).out


async def test_a_process_on_the_port_of_the_proxy_is_ended(container: Shell) -> None:
    await container.run("true")
    await container.sandbox._session.egress.close()  # type: ignore[attr-defined]
    seconds = unique_seconds()
    squatter = f"(nc -l -p {PORT} -e sleep {seconds} &) ; until grep -q :0C38 /proc/net/tcp6; do :; done"
    await _without_proxy(container, squatter)
    with pytest.raises(SandboxError, match="can be run again"):
        await container.run("true")
    assert UNLISTED in (await container.run(f"{ASK} ask evil.example.net")).out


async def _without_proxy(container: Shell, script: str) -> None:
    """Runs a command in the container as one does that an earlier server has left."""
    engine, name = container.sandbox._engine, container.sandbox._name  # type: ignore[attr-defined]
    execution = await engine.container(name).exec(["/bin/sh", "-c", script])
    await execution.start(detach=True)
    async with asyncio.timeout(60):
        while (await execution.inspect())["Running"]:  # noqa: ASYNC110 - the Engine raises no event here
            await asyncio.sleep(0)
