"""How large a session says that its context is, whatever is taken back while a step is under way."""

from __future__ import annotations

from typing import Literal

from sqlalchemy import Connection

from app.db.repositories import compactions, sessions, steps
from app.sessions import ContextState


def note_size(connection: Connection, session_id: str, tokens: int, *, counted: bool = False) -> None:
    """Says how large the context is now, until the next step's report; `counted` by the provider itself."""
    state = _sized(connection, session_id, tokens)
    if counted and state.source == "estimated":
        state = state.model_copy(update={"source": "reported"})
    sessions.change(connection, session_id, context=state.model_dump())


def note_owners_size(connection: Connection, session_id: str, tokens: int) -> None:
    """The same by the word of the session's owner; see `with_reverts`."""
    state = with_reverts(connection, session_id, _sized(connection, session_id, tokens))
    sessions.change(connection, session_id, context=state.model_dump())


def with_reverts(connection: Connection, session_id: str, state: ContextState) -> ContextState:
    """What an owner says of its context, with the rounds that were taken back since its generation began: it learns of
    them before its next step only, and by then the context is as large as without them."""
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
    """Where the window is a guess, it stays one."""
    source: Literal["estimated", "assumed"] = "assumed" if context.source == "assumed" else "estimated"
    return context.model_copy(update={"tokens": max(0, tokens), "source": source})
