"""Whether a provider can be reached: by its newest call, and by a test connection."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator

import pytest

from app.llm import reachability
from app.llm.catalog import Catalog
from app.llm.reachability import UNREACHABLE, Reach, make_transport
from app.llm.registry import ProviderConfig, Providers

CLOSED = "http://127.0.0.1:9/v1"


@pytest.fixture
async def open_port() -> AsyncIterator[str]:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


async def test_a_provider_that_was_never_called_is_tested_by_a_connection(open_port: str) -> None:
    assert (await Reach("up", open_port).check()).state == "ok"
    found = await Reach("down", CLOSED).check()
    assert (found.state, found.detail) == ("unreachable", "down cannot be reached")
    assert "127.0.0.1" not in found.detail


async def test_a_failed_connection_is_tested_again(open_port: str) -> None:
    back = Reach("back", open_port)
    back.failed(UNREACHABLE)
    assert (await back.check()).state == "ok"


async def test_errors_count_until_a_call_succeeds_or_they_are_old(
    open_port: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = Reach("busy", open_port)
    busy.failed("provider_overloaded")
    assert ((await busy.check()).state, busy.is_used) == ("failing", False)
    busy.called()
    busy.answered()
    assert ((await busy.check()).state, busy.is_used) == ("ok", True)
    busy.failed("provider_overloaded")
    monkeypatch.setattr(reachability, "RECENT_S", 0.0)
    assert (await busy.check()).state == "ok"
    monkeypatch.setattr(reachability, "USED_S", 0.0)
    assert not busy.is_used


async def test_behind_a_proxy_a_provider_counts_as_reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "")
    assert (await Reach("far", "http://far.example/v1").check()).state == "ok"


def test_certificates_are_loaded_for_tls_and_for_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "")
    assert make_transport("HTTPS://far.example/v1").ssl_context.verify_mode is ssl.CERT_REQUIRED
    assert make_transport("http://far.example/v1").ssl_context.verify_mode is ssl.CERT_NONE
    monkeypatch.setenv("http_proxy", "https://proxy.example")
    assert make_transport("http://far.example/v1").ssl_context.verify_mode is ssl.CERT_REQUIRED


async def test_only_used_providers_are_checked(open_port: str) -> None:
    configs = [ProviderConfig(name, "openai", url, "key") for name, url in (("up", open_port), ("down", CLOSED))]
    providers = Providers([*configs, ProviderConfig("scripted", "scripted")], Catalog())
    assert [found.state for found in await providers.conditions("up/model")] == ["ok"]
    assert await providers.conditions("scripted/demo") == []
    assert [found.state for found in await providers.conditions("down/model")] == ["unreachable"]
    await providers.aclose()
