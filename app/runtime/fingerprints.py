"""What distinguishes a repeated request, which makes a retry safe, from another one with the same id."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import orjson

from app.runtime.values.queue import QueueAdd
from app.runtime.values.sessions import SessionCreate


def request_fingerprint(body: SessionCreate) -> str:
    """Of a new session. Of secrets only the names count: a hash of their values would be stored in plain sight."""
    digest = hashlib.sha256()
    for piece in _canonical(body):
        digest.update(piece)
    return digest.hexdigest()


def _canonical(body: SessionCreate) -> Iterator[bytes]:
    """The request as JSON with sorted names, message by message."""
    asked = body.model_dump(mode="json", exclude={"id": True, "history": {"messages"}}, exclude_unset=True)
    before = b"{"
    for name in sorted(asked):
        yield b"%s%s:" % (before, orjson.dumps(name))
        before = b","
        if name == "history" and body.history is not None:
            yield b'{"format":%s,"messages":' % orjson.dumps(body.history.format)
            for place, message in enumerate(body.history.messages):
                yield b"%s%s" % (b"," if place else b"[", orjson.dumps(message, option=orjson.OPT_SORT_KEYS))
            yield b"]}"
        else:
            yield orjson.dumps(asked[name], option=orjson.OPT_SORT_KEYS)
    yield b"}" if asked else b"{}"


def message_fingerprint(body: QueueAdd) -> str:
    """Of a queued message, whatever its mode."""
    if isinstance(body.content, str):
        digest = hashlib.sha256(body.content.encode())
    else:
        digest = hashlib.sha256()
        for part in body.content:
            digest.update(part.model_dump_json(exclude_unset=True).encode())
    if body.output is not None:
        digest.update(orjson.dumps(body.output.stored(), option=orjson.OPT_SORT_KEYS))
    return digest.hexdigest()
