"""What a command cannot do in the kinds that keep it from the host."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.unit.sandbox.conftest import make_factory
from tests.unit.sandbox.shell import Shell, new_config


async def test_the_user_has_no_capabilities(walled: Shell) -> None:
    ran = await walled.run("id -u; grep -E '^(Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs)' /proc/self/status")
    uid, *lines = ran.out.splitlines()
    assert int(uid) >= 1000
    values = dict(line.split(":\t") for line in lines)
    assert values.pop("NoNewPrivs") == "1"
    assert set(values.values()) == {"0" * 16}


async def test_groups_are_the_users_own(walled: Shell) -> None:
    ran = await walled.run("id -u; id -G")
    uid, groups = ran.out.splitlines()
    assert set(groups.split()) == {uid} or os.geteuid() != 0


async def test_secrets_and_files_of_the_host_are_hidden(walled: Shell, data_dir: Path) -> None:
    secret = data_dir / "palimpsest.db"
    secret.write_text("secret")
    here = Path(__file__)
    paths = [secret, data_dir, here, here.parents[3], Path.home() / ".ssh", "/etc/shadow", "/var", "/opt", "/srv"]
    if walled.kind == "docker":
        paths = paths[:4]
    for path in paths:
        assert (await walled.run(f"cat '{path}' || ls -A '{path}'/*")).out == "", path
    ran = await walled.run("cat /proc/[0-9]*/environ; cat /proc/[0-9]*/cmdline")
    assert "sk-not-for-commands" not in ran.out
    assert str(data_dir) not in ran.out or walled.kind == "bubblewrap"


async def test_the_engine_cannot_be_reached(walled: Shell) -> None:
    ran = await walled.run("ls /var/run/docker.sock /run/docker.sock /run/*; ls /run/user /run/dbus")
    assert "sock" not in ran.out


async def test_the_system_cannot_be_written(walled: Shell) -> None:
    for target in (
        "/usr/bin/x",
        "/etc/x",
        "/x",
        "/bin/x",
        "/proc/sys/kernel/hostname",
        "/proc/sysrq-trigger",
        "/lib/x",
    ):
        ran = await walled.run(f"echo x > {target}")
        assert ran.code != 0, target


async def test_no_network_means_no_interface_but_loopback(walled: Shell) -> None:
    assert not walled.sandbox.network
    ran = await walled.run("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '; cat /proc/net/route | tail -n +2")
    assert ran.out.split() == ["lo"]


async def test_a_network_is_available_on_request(walled_kind: str, data_dir: Path, instance_id: str) -> None:
    factory = make_factory(walled_kind, data_dir, instance_id)
    sandbox = factory.open(new_config(network=True))
    try:
        ran = await Shell(sandbox).run("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '; cat /etc/resolv.conf")
        assert sandbox.network
        assert len(ran.out.split()) > 1
    finally:
        await sandbox.remove()
        await factory.aclose()


async def test_processes_of_the_host_are_not_seen(walled: Shell) -> None:
    ran = await walled.run(
        f"kill -0 {os.getpid()} 2>/dev/null && [ {os.getpid()} -gt 300 ]; echo $?; ls -d /proc/[0-9]* | wc -l"
    )
    alive, count = ran.out.split()
    assert alive == "1"
    assert int(count) < 15


async def test_temporary_and_home_directory_can_be_used(walled: Shell) -> None:
    ran = await walled.run(
        "cd ~ && echo 'echo run' > script && chmod +x script && ./script && cp script /tmp && /tmp/script"
    )
    assert ran.out == "run\nrun\n"
    assert (await walled.run("cat /tmp/script ~/script")).out == "echo run\n" * 2


async def test_devices_are_the_harmless_ones(walled: Shell) -> None:
    ran = await walled.run("echo x > /dev/null; head -c 4 /dev/urandom | wc -c; ls /dev; mknod /tmp/sda b 8 0")
    names = set(ran.out.split())
    assert names & {"sda", "vda", "mem", "kmsg", "kvm", "fuse"} == set()
    assert "4" in names


async def test_a_core_is_not_dumped(walled: Shell) -> None:
    assert (await walled.run("ulimit -c")).out.strip() == "0"


async def test_memory_is_limited(walled: Shell) -> None:
    """`tail` keeps a line without an end whole: 2 GB where 256 MB are allowed."""
    ran = await walled.run("head -c 2000000000 /dev/zero | tail -n 1 | wc -c", timeout_s=60)
    assert ran.out.strip() != "2000000000"
    assert (await walled.run("echo alive")).out == "alive\n"


@pytest.mark.parametrize("what", ["unshare -r true", "mount -t tmpfs none /mnt", "su -c id", "chroot / true"])
async def test_privileges_cannot_be_regained(walled: Shell, what: str) -> None:
    ran = await walled.run(f"{what} </dev/null && id -u")
    # a user namespace of its own gives no right over the host; where bubblewrap is not root it is refused altogether
    assert ran.out.strip() != "0" or what.startswith("unshare")
