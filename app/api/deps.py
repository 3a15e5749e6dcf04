"""Dependencies of the routes: the services, and validated path and query values."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Depends, Path, Query, Request
from pydantic import AfterValidator

from app.errors import NotFoundError, UnavailableError
from app.runtime import services
from app.runtime.values.fields import Text

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ID_EXAMPLE = "01936f5e-8d2a-7c3b-9f1e-2a4b6c8d0e1f"


async def get_services(request: Request) -> services.Services:
    """The services. Raises `UnavailableError` before startup has set them and after shutdown.

    It awaits nothing, but FastAPI would run a plain function in a thread for each request.
    """
    found: services.Services | None = getattr(request.app.state, "services", None)
    if found is None:
        raise UnavailableError("The server is starting or stopping.")
    return found


def _session_id(value: str) -> str:
    if not _UUID.fullmatch(value):
        raise NotFoundError("There is no session with this id.", code="session_not_found")
    return value


def _message_id(value: str) -> str:
    if not _UUID.fullmatch(value):
        raise NotFoundError("There is no queued message with this id.", code="message_not_found")
    return value


Services = Annotated[services.Services, Depends(get_services)]
SessionId = Annotated[str, AfterValidator(_session_id), Path(description="The session's id.", examples=[_ID_EXAMPLE])]
MessageId = Annotated[str, AfterValidator(_message_id), Path(description="The message's id.", examples=[_ID_EXAMPLE])]
CallId = Annotated[Text, Path(description="The call's `call_id`.", examples=[_ID_EXAMPLE])]
Round = Annotated[int, Path(ge=1, le=2**31 - 1, description="The number of a compaction round.", examples=[1])]
Cursor = Annotated[
    Text | None,
    Query(max_length=500, description="`next_cursor` of the previous page; omit it for the first page."),
]
Limit = Annotated[int, Query(ge=1, le=500, description="Max items per page.")]
