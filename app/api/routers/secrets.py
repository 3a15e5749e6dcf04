"""The secrets of a session."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from app.api.dependencies import STRICT, Services, SessionId
from app.api.problems import problems
from app.api.request_bodies import JsonRoute
from app.runtime.values.secrets import NAME_PATTERN, SecretList, SecretName, SecretPut

router = APIRouter(
    prefix="/v1/sessions/{session_id}/secrets", tags=["secrets"], route_class=JsonRoute, dependencies=STRICT
)
Name = Annotated[
    SecretName, Path(description="The environment variable.", examples=["API_TOKEN"], pattern=NAME_PATTERN)
]


@router.get("", responses=problems("session_not_found"))
async def list_secrets(services: Services, session_id: SessionId) -> SecretList:
    """The names of the session's secrets. Their values are returned by no request."""
    return await services.secrets.list(session_id)


@router.put(
    "/{name}",
    status_code=204,
    responses=problems("session_not_found", "subagent_session", "too_many_secrets", "secret_key_missing"),
)
async def put_secret(services: Services, session_id: SessionId, name: Name, body: SecretPut) -> None:
    """Sets a secret: commands get it as an environment variable from the next step on, and its value is replaced by
    `[secret NAME]` in what they print, also in base64, URL-encoded, in hexadecimal digits and in JSON. Forks do not
    get it."""
    await services.secrets.put(session_id, name, body)


@router.delete(
    "/{name}", status_code=204, responses=problems("session_not_found", "subagent_session", "secret_not_found")
)
async def delete_secret(services: Services, session_id: SessionId, name: Name) -> None:
    """Removes a secret from the next step on. What is printed later is not searched for it any more."""
    await services.secrets.remove(session_id, name)
