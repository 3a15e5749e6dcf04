"""Query parameters: one that a route does not take is refused, since to pass it over would answer another question than
the one that was asked."""

from __future__ import annotations

from fastapi import Request
from fastapi.routing import APIRoute

from app.api.fields import MAX_FIELD_ERRORS, MAX_TEXT_CHARS, in_prose
from app.errors import ValidationFailedError


async def refuse_unknown(request: Request) -> None:
    """Raises `ValidationFailedError` for parameters that the route does not take, each of them named.

    It waits for nothing, but a plain function would be given a thread for each request.
    """
    if not request.scope["query_string"]:
        return
    route = request.scope["route"]
    assert isinstance(route, APIRoute)
    # The route's own are all that there are: what it depends on takes none.
    known = [field.alias for field in route.dependant.query_params]
    unknown = [name for name in dict.fromkeys(request.query_params) if name not in known]
    if not unknown:
        return
    takes = f"this route takes {', '.join(known)}" if known else "this route takes none"
    message = f"There is no such parameter; {takes}"
    errors = [{"field": name[:MAX_TEXT_CHARS], "message": message} for name in unknown[:MAX_FIELD_ERRORS]]
    named = ", ".join(error["field"] for error in errors[:3])
    raise ValidationFailedError(f"The request is not valid: {named}: {in_prose(message)}.", errors=errors)
