"""Refuses unknown query parameters: ignoring one would silently answer a different request."""

from __future__ import annotations

from fastapi import Request
from fastapi.routing import APIRoute

from app.api.fields import MAX_FIELD_ERRORS, MAX_TEXT_CHARS, in_prose
from app.errors import ValidationFailedError


async def refuse_unknown(request: Request) -> None:
    """Raises `ValidationFailedError` that names each parameter the route does not take.

    It awaits nothing, but FastAPI would run a plain function in a thread for each request.
    """
    if not request.scope["query_string"]:
        return
    route = request.scope["route"]
    assert isinstance(route, APIRoute)
    # The route's own parameters are complete: its dependencies take none.
    known = [field.alias for field in route.dependant.query_params]
    unknown = [name for name in dict.fromkeys(request.query_params) if name not in known]
    if not unknown:
        return
    takes = f"this route takes {', '.join(known)}" if known else "this route takes none"
    message = f"Unknown parameter; {takes}"
    errors = [{"field": name[:MAX_TEXT_CHARS], "message": message} for name in unknown[:MAX_FIELD_ERRORS]]
    named = ", ".join(error["field"] for error in errors[:3])
    raise ValidationFailedError(f"The request is not valid: {named}: {in_prose(message)}.", errors=errors)
