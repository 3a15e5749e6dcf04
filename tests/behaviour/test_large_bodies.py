"""Large request bodies: hostile ones cost bounded memory, honest ones are taken, and others are served meanwhile."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.behaviour import probe
from tests.behaviour.attack import LONG, Most
from tests.behaviour.process import ServerProcess
from tests.behaviour.test_connections import answers, memory_mb
from tests.provider import FakeProvider

MIB = 1024 * 1024
MOST_MB = 300
P99_MS = 100 if LONG else 400
"""Of `/healthz`: as promised on a quiet machine, and below what it was without the bounds on a busy one."""
AT_ONCE, ROUNDS = 4, 4

pytestmark = [pytest.mark.slow, pytest.mark.timeout(200)]


@pytest.fixture
def server(tmp_path: Path, provider: FakeProvider) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data", provider, "local-unsafe", "") as server:
        yield server


@asynccontextmanager
async def measured(server: ServerProcess, name: str) -> AsyncIterator[dict[str, float]]:
    """Prints and gives how slow `/healthz` was, 99th of 100 answers, and how large the server grew."""
    url = urlsplit(server.url)
    argv = [sys.executable, "-I", "-S", probe.__file__, str(url.hostname), str(url.port)]
    found: dict[str, float] = {}
    prober = await asyncio.create_subprocess_exec(*argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    async with Most(lambda: memory_mb(server)) as most:
        try:
            yield found
        finally:
            out, _ = await prober.communicate(b"")
    found |= dict(zip(("count", "worst", "p99"), json.loads(out), strict=True), memory=most.value)
    print(name, {key: round(value) for key, value in found.items()})


async def sent(server: ServerProcess, head: bytes, filling: bytes, tail: bytes) -> httpx.Response:
    """Posts a body, of nearly 64 MiB if there is a filling."""
    block = filling * (64 * 1024 // max(len(filling), 1))

    async def body() -> AsyncIterator[bytes]:
        yield head
        for _ in range(1020 if filling else 0):
            yield block
        if tail:
            yield tail

    async with httpx.AsyncClient(base_url=server.url, timeout=100, trust_env=False) as client:
        return await client.post("/v1/sessions", content=body(), headers={"Content-Type": "application/json"})


MESSAGES = b'{"history": {"format": "openai", "messages": ['
HOSTILE = {
    "empty lists": (MESSAGES, b"[],", b"[]]}}"),
    "empty objects": (MESSAGES, b"{},", b"{}]}}"),
    "numbers": (MESSAGES, b"1,", b"1]}}"),
    "objects": (MESSAGES, b'{"a":{"b":{"c":1}}},', b"1]}}"),
    "open lists": (b"", b"[", b""),
    "open objects": (b"", b'{"a":', b""),
    "a wide field": (b'{"metadata": {"a": [', b"[],", b"[]]}}"),
}


@pytest.mark.parametrize("kind", HOSTILE)
async def test_hostile_bodies_cost_bounded_memory(server: ServerProcess, kind: str) -> None:
    assert await answers(server)
    async with measured(server, kind) as found:
        for _ in range(ROUNDS):
            refused = await asyncio.gather(*[sent(server, *HOSTILE[kind]) for _ in range(AT_ONCE)])
            assert {(answer.status_code, answer.json()["code"]) for answer in refused} == {(400, "invalid_json")}
    assert found["memory"] < MOST_MB
    assert found["p99"] < P99_MS


@pytest.mark.parametrize("objects", [50_000, 240_000])
async def test_bodies_up_to_the_bound_cost_bounded_memory(server: ServerProcess, objects: int) -> None:
    """About the most values that are let through, and as many as a body for any route may have."""
    body = b'{"metadata": {"a": [' + b'{"a":{"b":{"c":1}}},' * objects + b"1]}}"
    async with measured(server, f"{objects:,} objects") as found:
        for _ in range(ROUNDS):
            refused = await asyncio.gather(*[sent(server, body, b"", b"") for _ in range(AT_ONCE)])
            assert {answer.status_code for answer in refused} <= {413, 422}
    assert found["memory"] < MOST_MB
    assert found["p99"] < P99_MS


async def test_a_large_history_is_taken_while_others_are_served(server: ServerProcess) -> None:
    """50,000 messages in nearly 64 MiB."""
    content = json.dumps("A line of code: foo[bar] = {'a': 1, \"b\": [2, 3]}; # ü\n" * 43, ensure_ascii=False)
    pair = f'{{"role": "user", "content": "Go on."}}, {{"role": "assistant", "content": {content}}}'
    history = ", ".join([pair] * 25_000)
    body = f'{{"history": {{"format": "openai", "messages": [{history}]}}}}'.encode()
    assert 60 * MIB < len(body) < 64 * MIB
    async with measured(server, f"import of {len(body) / MIB:.0f} MiB") as found:
        made = await sent(server, body, b"", b"")
    assert made.status_code == 201, made.text
    assert made.json()["last_seq"] == 50_001
    assert found["p99"] < P99_MS
