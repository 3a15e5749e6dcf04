"""The reported size of a session's context, also if rounds are reverted during a step."""

from __future__ import annotations

from typing import Literal

from sqlalchemy import Connection

from app.db.repositories import compactions, sessions, steps
from app.sessions import ContextState


def note_size(connection: Connection, session_id: str, tokens: int, *, counted: bool = False) -> None:
    """Sets the context's size until the next step's report; `counted` if the provider counted it."""
    state = _sized(connection, session_id, tokens)
    if counted and state.source == "estimated":
        state = state.model_copy(update={"source": "reported"})
    sessions.change(connection, session_id, context=state.model_dump())


def note_owners_size(connection: Connection, session_id: str, tokens: int) -> None:
    """Sets the size reported by the session's owner; see `with_reverts`."""
    state = with_reverts(connection, session_id, _sized(connection, session_id, tokens))
    sessions.change(connection, session_id, context=state.model_dump())


def with_reverts(connection: Connection, session_id: str, state: ContextState) -> ContextState:
    """Corrects the owner's report for rounds reverted since its generation started: the owner applies them only before
    its next step, when the context is as large as without them."""
    saved = compactions.saved_by_reverted(connection, session_id)
    if not saved:
        return state
    generation = steps.generation(connection, session_id)
    known = generation.rounds or () if generation is not None else ()
    back = sum(tokens for round, tokens in saved.items() if round in known)
    return _estimated(state, state.tokens + back) if back else state


def _sized(connection: Connection, session_id: str, tokens: int) -> ContextState:
    return _estimated(ContextState(**sessions.row(connection, session_id).context), tokens)


def _estimated(context: ContextState, tokens: int) -> ContextState:
    """An estimate of the size; an assumed window stays assumed."""
    source: Literal["estimated", "assumed"] = "assumed" if context.source == "assumed" else "estimated"
    return context.model_copy(update={"tokens": max(0, tokens), "source": source})
