"""Network access of commands: nothing without a network, and never the server without a key."""

from __future__ import annotations

import fcntl
import secrets
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from pydantic import SecretStr

from tests.behavior.conftest import StartServer
from tests.behavior.harness import Client, RunningServer, command, of_type
from tests.behavior.test_escapes import attempt, said
from tests.provider import FakeProvider, Reply, Text

KEY = "key-of-the-test"


@dataclass(frozen=True)
class Listeners:
    """Sockets of the host that anyone on it may connect to."""

    tcp: socket.socket
    tcp6: socket.socket
    udp: socket.socket
    abstract: socket.socket
    name: str
    """Name of the abstract socket."""

    def called(self) -> list[str]:
        """Which of them got a connection."""
        found = []
        for name in ("tcp", "tcp6", "udp", "abstract"):
            listener: socket.socket = getattr(self, name)
            try:
                if name == "udp":
                    listener.recv(1)
                else:
                    listener.accept()[0].close()
            except BlockingIOError:
                continue
            found.append(name)
        return found


@pytest.fixture
def listeners() -> Iterator[Listeners]:
    name = f"palimpsest-{secrets.token_hex(8)}"
    with ExitStack() as stack:

        def listening(family: int, kind: int, where: object) -> socket.socket:
            made = stack.enter_context(socket.socket(family, kind))
            made.bind(where)  # type: ignore[arg-type]
            if kind == socket.SOCK_STREAM:
                made.listen()
            made.setblocking(False)
            return made

        yield Listeners(
            listening(socket.AF_INET, socket.SOCK_STREAM, ("0.0.0.0", 0)),
            listening(socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0)),
            listening(socket.AF_INET, socket.SOCK_DGRAM, ("0.0.0.0", 0)),
            listening(socket.AF_UNIX, socket.SOCK_STREAM, f"\0{name}"),
            name,
        )


def own_addresses() -> list[str]:
    """The IPv4 addresses of this machine, loopback and Docker's bridges among them."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(asker, 0x8915, struct.pack("256s", name.encode()))  # SIOCGIFADDR
            except OSError:
                continue  # it has no address
            found.append(socket.inet_ntoa(answer[20:24]))
    return found


REACH = """
tcp() {
    if [ -n "${BASH_VERSION:-}" ]; then timeout 2 bash -c "exec 3<>/dev/tcp/$1/$2"
    else echo | timeout 2 nc -w 1 $1 $2; fi && echo "REACHED tcp $1 $2"
}
udp() {
    if [ -n "${BASH_VERSION:-}" ]; then echo x >/dev/udp/$1/$2
    else timeout 2 nslookup name.example $1:$2; fi
}
"""
"""Plain bash, or busybox's tools: its `nslookup` sends a datagram to any port."""
WEB = """
get() {
    if [ -n "${BASH_VERSION:-}" ]; then
        timeout 5 bash -c "exec 3<>/dev/tcp/$1/$2; printf 'GET $3 HTTP/1.0\\r\\nHost: localhost\\r\\n\\r\\n' >&3
            cat <&3"
    else printf "GET $3 HTTP/1.0\\r\\nHost: localhost\\r\\n\\r\\n" | timeout 5 nc -w 2 $1 $2; fi
}
"""
OUTSIDE = ("169.254.169.254 80", "1.1.1.1 53", "192.0.2.1 443", "fe80::1 80", "2606:4700:4700::1111 53", "ff02::1 80")
"""The metadata address of clouds, and other addresses beyond this machine."""


def everywhere(listeners: Listeners, server: RunningServer) -> str:
    """A command that tries all addresses, ports and names."""
    port, udp, port6 = (s.getsockname()[1] for s in (listeners.tcp, listeners.udp, listeners.tcp6))
    ours = server.url.rpartition(":")[2]
    tries = [f"tcp {address}" for address in (*OUTSIDE, f"::1 {port6}", f"host.docker.internal {port}")]
    for address in (*own_addresses(), "localhost"):
        tries += [f"tcp {address} {port}", f"tcp {address} {ours}", f"udp {address} {udp}"]
    tries += ["nslookup example.org", "nslookup example.org 1.1.1.1", "getent hosts example.org && echo REACHED name"]
    tries += ["ping -c 1 -W 1 192.0.2.1 && echo REACHED ping"]
    sockets = "ls /run/*sock* /run/*/*sock* /var/run/docker.sock /tmp/.X11-unix /run/user/*/bus; cat /proc/net/unix"
    return REACH + "\n".join(f"({one}) 2>/dev/null" for one in tries) + f"\n({sockets}) 2>/dev/null; echo tried"


async def test_without_a_network_nothing_is_reached(
    client: Client, server: RunningServer, provider: FakeProvider, sandbox: str, listeners: Listeners
) -> None:
    calls = [command(everywhere(listeners, server))]
    _, (result,), events = await attempt(client, provider, *calls, sandbox={"kind": sandbox, "network": False})
    assert result["output"].endswith("tried\n")
    assert "REACHED" not in result["output"]
    assert "sock" not in result["output"]
    assert listeners.name not in said(events)
    assert listeners.called() == []


async def test_with_the_hosts_network_the_server_requires_a_key(
    start_server: StartServer, provider: FakeProvider, listeners: Listeners
) -> None:
    """bubblewrap's network is the host's: its listeners are reached, which shows that the attempts are real."""
    server = start_server(sandbox="bubblewrap", sandbox_network="on", api_keys=(SecretStr(KEY),))
    ours = server.url.rpartition(":")[2]
    web = WEB + f"get 127.0.0.1 {ours} /v1/sessions; get 127.0.0.1 {ours} /metrics"
    async with Client(server.url, key=KEY) as client:
        calls = (command(everywhere(listeners, server)), command(web))
        _, (reached, asked), _ = await attempt(client, provider, *calls)
    assert f"REACHED tcp 127.0.0.1 {ours}" in reached["output"]
    assert {"tcp", "tcp6", "udp"} <= set(listeners.called())
    assert asked["output"].count("HTTP/1.1 401") == 2
    assert '"items"' not in asked["output"]


async def test_the_hosts_network_is_unavailable_without_keys(start_server: StartServer, provider: FakeProvider) -> None:
    """A session created while the server had keys gets no commands from a server without keys; its files stay
    accessible."""
    keyed = start_server(sandbox="bubblewrap", sandbox_network="on", api_keys=(SecretStr(KEY),))
    provider.script(
        Reply(command("echo kept >file")), Reply(Text("Done.")), Reply(command("echo reached")), Reply(Text("I see."))
    )
    async with Client(keyed.url, key=KEY) as client:
        session_id = (await client.run("keep a file"))[0]["id"]
    keyed.stop()
    open_server = start_server(sandbox="bubblewrap")
    async with Client(open_server.url) as client:
        assert (await client.session(session_id))["sandbox"]["network"] is True
        seq = (await client.session(session_id))["last_seq"]
        await client.post(session_id, "again")
        (result,) = of_type(await client.until_idle(session_id, after=seq), "tool.result")
        assert result.data["status"] == "error"
        assert "PALIMPSEST_API_KEYS" in result.data["output"]
        assert (await client.http.get(f"/v1/sessions/{session_id}/files/file")).text == "kept\n"
        forked = (await client.http.post(f"/v1/sessions/{session_id}/fork", json={})).json()
        assert forked["sandbox"]["network"] is False
        await attempt(client, provider, command("cat file"))


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
@pytest.mark.parametrize("sandbox", [pytest.param("docker", marks=pytest.mark.docker)], indirect=True)
async def test_dockers_network_does_not_lead_into_the_server(
    start_server: StartServer, provider: FakeProvider, host: str, sandbox: str
) -> None:
    """On loopback the server is unreachable; on another address it requires a key as from any client."""
    keys = {"api_keys": (SecretStr(KEY),)} if host != "127.0.0.1" else {}
    server = start_server(host=host, **keys)
    ours = server.url.rpartition(":")[2]
    asks = "".join(f"get {address} {ours} /v1/sessions\n" for address in own_addresses())
    script = f"{WEB}({asks}) 2>&1; tail -n +3 /proc/net/dev | wc -l"
    async with Client(server.url, key=KEY if keys else None) as client:
        _, (result,), _ = await attempt(client, provider, command(script))
    assert '"items"' not in result["output"]
    assert "HTTP/1.1 200" not in result["output"]
    assert result["output"].endswith("2\n"), "there was no network to try"
    if not keys:
        assert "HTTP/1.1" not in result["output"]
