"""What is Docker's own: containers that are found again, die, belong to others or cannot be made."""

from __future__ import annotations

import asyncio
import re
import secrets
import uuid
from collections.abc import AsyncIterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import aiodocker
import pytest
import pytest_asyncio

from app.errors import SandboxError, SandboxUnavailableError
from app.sandbox.base import SandboxLimits, Stream
from app.sandbox.docker.container import CONFIG_LABEL, INSTANCE_LABEL, container_config, container_name
from app.sandbox.docker.engine import Engine
from app.sandbox.docker.factory import DockerFactory
from app.sandbox.docker.files import ContainerArchives
from tests.unit.sandbox.shell import Shell, new_config, sleepers, unique_seconds, until_sleeping

MARK = "0123456789abcdef0123456789abcdef"

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("docker")]


@pytest_asyncio.fixture
async def engine() -> AsyncIterator[Engine]:
    made = Engine()
    yield made
    await made.aclose()


@pytest_asyncio.fixture
async def factory(docker: None, instance_id: str) -> AsyncIterator[DockerFactory]:
    made = DockerFactory(instance_id)
    await made.check()
    yield made
    await made.remove_orphans(set())
    await made.aclose()


async def described(engine: Engine, session_id: str) -> dict[str, Any]:
    shown = await engine.find(container_name(session_id))
    assert shown is not None
    return shown


async def test_the_container_is_restricted(factory: DockerFactory, engine: Engine) -> None:
    config = new_config()
    await factory.open(config).start()
    shown = await described(engine, config.session_id)
    host = shown["HostConfig"]
    assert host["CapDrop"] == ["ALL"]
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert (host["Memory"], host["MemorySwap"]) == (256 * 2**20, 256 * 2**20)
    assert host["CpuShares"] < 1024, "the server goes first"
    assert (host["NanoCpus"], host["PidsLimit"], host["NetworkMode"]) == (10**9, 64, "none")
    assert not host["Privileged"]
    assert not host["Binds"]
    assert [(mount["Type"], mount["Destination"]) for mount in shown["Mounts"]] == [("volume", "/workspace")]
    assert shown["Config"]["User"] == "1000:1000"
    assert not any("sk-" in variable for variable in shown["Config"]["Env"])
    volume = await engine.docker._query_json(f"volumes/{container_name(config.session_id)}")
    assert volume["Labels"][INSTANCE_LABEL] == shown["Config"]["Labels"][INSTANCE_LABEL]


async def test_sandboxes_with_a_network_do_not_reach_each_other(factory: DockerFactory, engine: Engine) -> None:
    one, other = new_config(network=True), new_config(network=True)
    await factory.open(one).start()
    await Shell(factory.open(other)).run("(echo hello | nc -l -p 8123) >/dev/null 2>&1 &")
    address = next(iter((await described(engine, other.session_id))["NetworkSettings"]["Networks"].values()))
    ran = await Shell(factory.open(one)).run(f"nc -w 1 {address['IPAddress']} 8123 </dev/null", timeout_s=3)
    assert "hello" not in ran.out


async def test_a_restarted_server_finds_the_container_again(factory: DockerFactory, instance_id: str) -> None:
    config, seconds = new_config(), unique_seconds()
    await Shell(factory.open(config)).run(f"echo kept >/tmp/file; sleep {seconds} >/dev/null 2>&1 &")
    await until_sleeping(seconds)
    successor = DockerFactory(instance_id)
    ran = await Shell(successor.open(config)).run("cat /tmp/file")
    assert ran.out == "kept\n"
    assert sleepers(seconds) == 1
    await successor.aclose()


async def test_two_servers_at_once_make_one_container(factory: DockerFactory, instance_id: str) -> None:
    config, second = new_config(), DockerFactory(instance_id)
    for_both = [Shell(made.open(config)) for made in (factory, second, factory)]
    results = await asyncio.gather(*(shell.run("hostname") for shell in for_both), return_exceptions=True)
    assert any(not isinstance(result, BaseException) and result.code == 0 for result in results)
    assert (await for_both[1].run("echo fine")).out == "fine\n"
    await second.aclose()


async def test_new_settings_make_a_new_container_and_keep_the_workspace(factory: DockerFactory, engine: Engine) -> None:
    config = new_config()
    await factory.open(config).write("file", b"kept")
    before = (await described(engine, config.session_id))["Id"]
    changed = replace(config, limits=SandboxLimits(memory_mb=128, cpus=1, pids=32))
    assert await factory.open(changed).read("file") == b"kept"
    after = await described(engine, config.session_id)
    assert after["Id"] != before
    assert after["HostConfig"]["PidsLimit"] == 32


async def test_a_container_of_another_server_is_left_alone(factory: DockerFactory) -> None:
    config, other = new_config(), DockerFactory("another")
    await factory.open(config).write("file", b"x")
    with pytest.raises(SandboxUnavailableError, match="another server"):
        await other.open(config).start()
    assert await other.remove_orphans(set()) == []
    assert await factory.open(config).read("file") == b"x"
    await other.aclose()


async def test_a_container_that_was_killed_is_started_again(factory: DockerFactory, engine: Engine) -> None:
    config = new_config()
    shell = Shell(factory.open(config))
    await shell.run("echo kept >file")
    await engine.kill(container_name(config.session_id))
    assert (await shell.run("cat file")).out == "kept\n"


async def test_a_removed_container_is_recreated(factory: DockerFactory, engine: Engine) -> None:
    config = new_config()
    shell = Shell(factory.open(config))
    await shell.run("echo kept >file")
    await engine.remove(container_name(config.session_id))
    assert await shell.sandbox.read("file") == b"kept\n"
    await engine.remove(container_name(config.session_id))
    assert (await shell.run("cat file")).out == "kept\n"


@pytest.mark.parametrize("how", ["kill", "remove"])
async def test_losing_the_container_ends_the_command(factory: DockerFactory, engine: Engine, how: str) -> None:
    config, begun = new_config(), asyncio.Event()

    def listen(_: Stream, data: bytes) -> None:
        begun.set()

    running = asyncio.create_task(factory.open(config).exec("echo begun; sleep 600", timeout_s=600, on_output=listen))
    await begun.wait()
    await (engine.kill if how == "kill" else engine.remove)(container_name(config.session_id))
    await asyncio.wait([running], timeout=60)
    lost = running.exception()
    if lost is None:
        assert running.result().exit_code == 137
    else:
        assert isinstance(lost, SandboxError)
        assert "ended while the command ran" in lost.detail


async def test_a_command_that_uses_all_memory_ends_alone(factory: DockerFactory) -> None:
    shell = Shell(factory.open(new_config()))
    ran = await shell.run("head -c 2000000000 /dev/zero | tail -n 1 >/dev/null; echo after")
    assert ran.code in (0, 137)
    assert (await shell.run("echo alive")).out == "alive\n"


DECEPTIONS = {
    "an end": "echo {mark} 0; sleep {n}",
    "a second beginning": "echo {mark} 1 99999999999; (setsid sleep {n} &) ; sleep {n}",
    "an end and a second beginning": "echo {mark} 1 99999999999; echo {mark} 0; (setsid sleep {n} &) ; sleep {n}",
    "a killed script": "(setsid sleep {n} &) ; kill -9 $PPID; sleep {n}",
    "a kill script that is killed": (
        "sleep {n} & while :; do for each in /proc/[0-9]*; do each=${{each#/proc/}};"
        " [ $each -gt $! ] && kill -9 $each; done; done"
    ),
    "a kill script that is stopped": "while :; do kill -STOP $(ls /proc | grep '[0-9]' | tail -n 2); done & sleep {n}",
}


@pytest.mark.extended
@pytest.mark.parametrize("how", ["time-out", "cancel"])
@pytest.mark.parametrize("deception", DECEPTIONS)
async def test_a_deceptive_command_is_dead_when_it_has_ended(
    factory: DockerFactory, monkeypatch: pytest.MonkeyPatch, deception: str, how: str
) -> None:
    """Even where it has come to know the mark."""
    monkeypatch.setattr(secrets, "token_hex", lambda _: MARK)
    shell, seconds = Shell(factory.open(new_config())), unique_seconds()
    command = DECEPTIONS[deception].format(mark=MARK, n=seconds)
    running = asyncio.create_task(shell.run(command, timeout_s=1.5 if how == "time-out" else 60))
    await until_sleeping(seconds)
    if how == "cancel":
        running.cancel()
    await asyncio.wait([running])
    assert sleepers(seconds) == 0
    assert (await shell.run("echo alive")).out == "alive\n"


async def test_a_command_cannot_read_the_mark(factory: DockerFactory) -> None:
    shell = Shell(factory.open(new_config()))
    ran = await shell.run("cat /proc/$PPID/cmdline /proc/$PPID/environ | tr '\\0' '\\n'; sleep 0.1")
    assert "palimpsest-command" in ran.out
    assert not re.search(r"\b[0-9a-f]{32}\b", ran.out)


async def test_commands_of_an_earlier_server_are_ended_at_start(factory: DockerFactory, instance_id: str) -> None:
    """The server is gone without a farewell: its connection is closed while the command runs on."""
    config, seconds = new_config(), unique_seconds()
    engine = Engine()
    await factory.open(config).start()
    execution = await engine.container(container_name(config.session_id)).exec(["sleep", seconds])
    stream = execution.start()
    await stream._init()
    await until_sleeping(seconds)
    await stream.close()
    await engine.aclose()
    successor = DockerFactory(instance_id)
    assert await successor.remove_orphans({config.session_id}) == [f"commands in {container_name(config.session_id)}"]
    assert sleepers(seconds) == 0
    assert await successor.remove_orphans({config.session_id}) == []
    await successor.aclose()


async def test_background_processes_are_not_leftover_commands(factory: DockerFactory, engine: Engine) -> None:
    config, seconds = new_config(), unique_seconds()
    await Shell(factory.open(config)).run(f"sleep {seconds} >/dev/null 2>&1 &")
    await until_sleeping(seconds)
    async with asyncio.timeout(60):
        while await engine.executing(container_name(config.session_id)):  # noqa: ASYNC110
            await asyncio.sleep(0.02)  # the Engine learns later than we do that the command has ended
    assert await factory.remove_orphans({config.session_id}) == []
    assert sleepers(seconds) == 1
    found = await factory.remove_orphans({config.session_id}, {config.session_id})
    assert found == [f"commands in {container_name(config.session_id)}"], "its run was interrupted"
    assert sleepers(seconds) == 0


async def test_what_a_killed_server_has_stopped_continues(factory: DockerFactory, instance_id: str) -> None:
    """It may have been killed while it counted what a session has on the disk."""
    config, seconds = new_config(), unique_seconds()
    await Shell(factory.open(config)).run(f"sh -c 'kill -STOP $$; sleep {seconds}' >/dev/null 2>&1 &")
    successor = DockerFactory(instance_id)
    try:
        await Shell(successor.open(config)).run("true")
        await until_sleeping(seconds)
    finally:
        await successor.aclose()


async def test_a_volume_without_a_container_is_an_orphan_too(factory: DockerFactory, engine: Engine) -> None:
    config = new_config()
    await factory.open(config).write("file", b"x")
    await engine.remove(container_name(config.session_id))
    assert await factory.remove_orphans(set()) == [f"volume {container_name(config.session_id)}"]


async def test_an_unavailable_image_is_refused(factory: DockerFactory) -> None:
    config = replace(new_config(), image="localhost:1/no-such-image:latest")
    with pytest.raises(SandboxUnavailableError, match="docker pull localhost:1/no-such-image:latest"):
        await factory.open(config).start()


async def test_an_invalid_image_name_is_refused(factory: DockerFactory) -> None:
    with pytest.raises(SandboxUnavailableError):
        await factory.open(replace(new_config(), image="::not an image::")).start()


async def test_removal_leaves_nothing(factory: DockerFactory, engine: Engine) -> None:
    config = new_config()
    sandbox = factory.open(config)
    await sandbox.write("file", b"x")
    await sandbox.remove()
    assert await engine.find(container_name(config.session_id)) is None
    assert await engine.labelled(f"palimpsest.session={config.session_id}") == ([], [])


async def test_stopping_removes_the_container_and_keeps_the_workspace(factory: DockerFactory, engine: Engine) -> None:
    config = new_config()
    sandbox = factory.open(config)
    await sandbox.write("file", b"x")
    await sandbox.stop()
    assert await engine.find(container_name(config.session_id)) is None
    assert await sandbox.read("file") == b"x"


async def test_a_workspace_with_unknown_content_is_archived_from_a_stopped_container(factory: DockerFactory) -> None:
    sandbox = factory.open(new_config())
    await sandbox.write("dir/file", b"x" * 100_000)
    await sandbox.stop()
    assert sum([len(piece) async for piece in sandbox.archive()]) > 100_000


@pytest.mark.parametrize("host", ["unix:///nowhere/docker.sock", "tcp://127.0.0.1:1", "nonsense", "unix://", "ftp://x"])
async def test_an_engine_that_does_not_answer(host: str) -> None:
    factory = DockerFactory("nobody", host)
    with pytest.raises(SandboxUnavailableError, match="DOCKER_HOST"):
        await factory.check()
    with pytest.raises(SandboxUnavailableError):
        await factory.open(new_config()).start()
    await factory.aclose()
    await factory.aclose()


async def test_the_check_notices_an_unavailable_image(instance_id: str) -> None:
    factory = DockerFactory(instance_id, image="registry.invalid/nothing:1")
    with pytest.raises(SandboxUnavailableError, match="PALIMPSEST_SANDBOX_IMAGE"):
        await factory.check()
    await factory.aclose()


async def test_it_says_what_was_found(factory: DockerFactory) -> None:
    assert factory.describe().startswith("Docker Engine ")
    assert factory.describe().split()[2][0].isdigit()


async def test_the_description_of_a_container_is_stable() -> None:
    config = new_config(str(uuid.UUID(int=1)))
    one, other = (container_config(config, "a") for _ in range(2))
    assert one == other
    changed = container_config(replace(config, network=True), "a")
    assert changed["Labels"][CONFIG_LABEL] != one["Labels"][CONFIG_LABEL]


async def test_the_engines_refusals_are_reported(engine: Engine) -> None:
    archives = ContainerArchives(engine, "no-such-container")
    with pytest.raises(aiodocker.DockerError), engine.translated():
        await archives.put("/", b"")
    assert await archives.status("/x") is None
    await engine.kill("no-such-container")
    await engine.remove("no-such-container")
    await engine.remove_volume("no-such-volume")
    assert not await engine.executing("no-such-container")


async def test_links_are_copied_wherever_they_lead(factory: DockerFactory) -> None:
    source, target = factory.open(new_config()), factory.open(new_config())
    await Shell(source).run("ln -s ../outside up; ln -s /etc/passwd away; echo x >file; ln file hard")
    await target.copy_from(source)
    seen = await Shell(target).run("readlink up; readlink away; cat file; stat -c %h hard; [ -O file ] && echo own")
    assert seen.out == "../outside\n/etc/passwd\nx\n2\nown\n"


@pytest.mark.parametrize(("broken", "is_copied"), [(2, True), (3, False)])
async def test_a_workspace_that_changes_while_it_is_copied_is_copied_again(
    factory: DockerFactory, monkeypatch: pytest.MonkeyPatch, broken: int, is_copied: bool
) -> None:
    source, target = factory.open(new_config()), factory.open(new_config())
    await source.write("kept", b"x" * 100_000)
    whole, fetched = ContainerArchives.fetch, 0

    async def fetch(archives: ContainerArchives, path: str) -> AsyncIterator[bytes]:
        nonlocal fetched
        fetched += 1
        archive = b"".join([piece async for piece in whole(archives, path)])
        yield archive[: 50_000 if fetched <= broken else None]

    monkeypatch.setattr(ContainerArchives, "fetch", fetch)
    with nullcontext() if is_copied else pytest.raises(SandboxError, match="unexpected EOF"):
        await target.copy_from(source)
    assert fetched == 3
    monkeypatch.undo()
    if is_copied:
        assert await target.read("kept", max_bytes=200_000) == b"x" * 100_000
