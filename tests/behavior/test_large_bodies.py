"""Large request bodies: hostile ones cost bounded memory, valid ones are accepted, and others are served meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from tests.behavior.attack import watched
from tests.behavior.combinations import first_of
from tests.behavior.process import ServerProcess
from tests.behavior.test_connections import answers
from tests.load import LONG
from tests.provider import FakeProvider

MIB = 1024 * 1024
IMPORT_MB = 300
"""While 64 MiB of history are read, of which one copy is in memory at a time."""
P99_MS = 100 if LONG else 400
"""Limits for `/healthz`: as promised on an idle machine, and in CPU time below the unbounded value on a busy one."""
AT_ONCE, ROUNDS = (4, 4) if LONG else (2, 1)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(200), pytest.mark.extended]


@pytest.fixture
def server(tmp_path: Path, provider: FakeProvider) -> Iterator[ServerProcess]:
    more = {"PALIMPSEST_MODELS": json.dumps({"fake-openai/model": {"context_window": 10_000_000}})}
    with ServerProcess(tmp_path / "data", provider, "local-unsafe", "", more) as server:
        yield server


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
OPEN = {"open lists", "open objects"}


@first_of(2, kind=HOSTILE)
async def test_hostile_bodies_cost_bounded_memory(server: ServerProcess, kind: str) -> None:
    assert await answers(server)
    with watched(server, kind) as seen:
        for _ in range(ROUNDS):
            refused = await asyncio.gather(*[sent(server, *HOSTILE[kind]) for _ in range(AT_ONCE)])
            assert {(answer.status_code, answer.json()["code"]) for answer in refused} == {(400, "invalid_json")}
            # Not the parser's own error, which takes the whole body.
            reason = "nested deeper than 100 levels" if kind in OPEN else "more than 1,000,000 values"
            assert all(reason in answer.json()["detail"] for answer in refused)
    assert seen.p99_ms < P99_MS


@first_of(objects=[50_000, 240_000])
async def test_bodies_up_to_the_bound_cost_bounded_memory(server: ServerProcess, objects: int) -> None:
    """About the maximum number of values accepted, and the maximum body for any route."""
    body = b'{"metadata": {"a": [' + b'{"a":{"b":{"c":1}}},' * objects + b"1]}}"
    with watched(server, f"{objects:,} objects") as seen:
        for _ in range(ROUNDS):
            refused = await asyncio.gather(*[sent(server, body, b"", b"") for _ in range(AT_ONCE)])
            assert {answer.status_code for answer in refused} <= {400, 413}
    assert seen.p99_ms < P99_MS


FIELDS, FIELDS_MB = (900_000, 400) if LONG else (300_000, 250)
"""Thirty times as many as a body may have, and the server's memory while the names are read, before they are refused as
too many."""
SMALL_HISTORY = b'"history": {"format": "openai", "messages": [{"role": "user", "content": "Hi"}], "f": 0'
"""Left open, for more fields in it."""
SENT_BESIDE = {
    "fields": lambda: b"{" + SMALL_HISTORY + b"}" + b"".join(b',"f%d":1' % i for i in range(FIELDS)) + b"}",
    "fields of the history": lambda: b"{" + SMALL_HISTORY + b"".join(b',"f%d":1' % i for i in range(FIELDS)) + b"}}",
    "tools": lambda: b"{" + SMALL_HISTORY + b'}, "tools": [1' + b",1" * FIELDS + b"]}",
    "tools without a history": lambda: b'{"tools": [1' + b",1" * 500_000 + b"]}",
    "tools in 64 KiB": lambda: b'{"tools": [1' + b",1" * 32_000 + b"]}",
}


@first_of(kind=SENT_BESIDE)
async def test_fields_without_number_are_refused_before_they_are_checked(server: ServerProcess, kind: str) -> None:
    assert await answers(server)
    body = SENT_BESIDE[kind]()
    with watched(server, kind, FIELDS_MB) as seen:
        refused = await asyncio.gather(*[sent(server, body, b"", b"") for _ in range(AT_ONCE)])
    assert {(answer.status_code, answer.json()["code"]) for answer in refused} == {(400, "invalid_json")}
    assert seen.p99_ms < P99_MS


PATTERNS = {
    "too large": ["(?i)" + r"[\pL\pN]{9}" * 60] * 100,
    "slow": [rf"(\pL{{25}}){{2}}{number}" for number in range(100)],
}


@pytest.mark.parametrize("kind", PATTERNS)
async def test_a_policy_of_many_costly_patterns_keeps_nobody_waiting(server: ServerProcess, kind: str) -> None:
    assert await answers(server)
    body = json.dumps({"approval": {"policy": {"commands": PATTERNS[kind]}}}).encode()
    with watched(server, f"patterns, {kind}"):
        refused = await asyncio.gather(*[sent(server, body, b"", b"") for _ in range(2)])
    assert {(answer.status_code, answer.json()["code"]) for answer in refused} == {(422, "validation_error")}
    (error,) = refused[0].json()["errors"]
    assert error["field"].startswith("approval.policy.commands")


async def test_what_stands_beside_a_history_has_the_bound_of_any_body(server: ServerProcess) -> None:
    """A text costs each reader its bytes as JSON, where one character may have six."""
    history = {"format": "openai", "messages": [{"role": "user", "content": "x" * MIB}]}
    for prompt, status in (("\x01" * 170_000, 201), ("\x01" * 180_000, 413)):
        body = json.dumps({"history": history, "system_prompt": prompt})
        answer = await sent(server, body.encode(), b"", b"")
        assert answer.status_code == status, answer.text
    assert (answer.json()["code"], answer.json()["limit_bytes"]) == ("too_large", MIB)


@pytest.mark.extended
async def test_a_large_history_is_accepted_while_others_are_served(server: ServerProcess) -> None:
    """Nearly 64 MiB, at full load of 50,000 messages."""
    pairs, lines = (25_000, 43) if LONG else (5_000, 218)
    content = json.dumps("A line of code: foo[bar] = {'a': 1, \"b\": [2, 3]}; # ü\n" * lines, ensure_ascii=False)
    pair = f'{{"role": "user", "content": "Go on."}}, {{"role": "assistant", "content": {content}}}'
    history = ", ".join([pair] * pairs)
    body = f'{{"history": {{"format": "openai", "messages": [{history}]}}}}'.encode()
    assert 60 * MIB < len(body) < 64 * MIB
    with watched(server, f"import of {len(body) / MIB:.0f} MiB", IMPORT_MB) as seen:
        made = await sent(server, body, b"", b"")
    assert made.status_code == 201, made.text
    assert made.json()["last_seq"] == 2 * pairs + 1
    assert seen.p99_ms < P99_MS
