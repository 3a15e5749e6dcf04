"""An application around an in-memory service, and a client for it that needs no socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import httpx
import pytest
from fastapi import FastAPI

from app.api.guard import ApiConfig
from app.api.main import create_app
from app.runtime.values.sessions import SessionCreate
from app.sessions import Session
from tests.unit.api.double import InMemoryService
from tests.unit.api.serving import Server, serving

KEY = "key-one"
ClientFor = Callable[[FastAPI], httpx.AsyncClient]


@pytest.fixture
def service() -> InMemoryService:
    return InMemoryService()


@pytest.fixture
def app(service: InMemoryService) -> FastAPI:
    return create_app(ApiConfig(), services=service.services)


@pytest.fixture
def keyed_app(service: InMemoryService) -> FastAPI:
    """The same with two keys, and also reachable as `agents.example`."""
    return create_app(
        ApiConfig(api_keys=(KEY, "key-two"), allowed_hosts=("agents.example", "Other.example:8443")),
        services=service.services,
    )


@pytest.fixture
async def client_for() -> AsyncIterator[ClientFor]:
    """Creates clients and closes them; an unexpected error becomes a 500, as from a server."""
    clients: list[httpx.AsyncClient] = []

    def make(app: FastAPI) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        clients.append(httpx.AsyncClient(transport=transport, base_url="http://localhost:8000"))
        return clients[-1]

    yield make
    for client in clients:
        await client.aclose()


@pytest.fixture
def client(app: FastAPI, client_for: ClientFor) -> httpx.AsyncClient:
    return client_for(app)


@pytest.fixture
async def server(app: FastAPI) -> AsyncIterator[Server]:
    """The application on a real socket."""
    async with serving(app) as server:
        yield server


@pytest.fixture
async def session(service: InMemoryService) -> Session:
    """A session with an active run."""
    session, _ = await service.services.sessions.create(SessionCreate(task="Say hello."))
    return session
