"""The images of messages, by the digests that their parts name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from sqlalchemy import Connection, String, bindparam, func, insert, select

from app.db.dialects import insert_new
from app.db.models import images

MAX_SESSION_IMAGES = 512 * 1024 * 1024
"""Maximum bytes of a session's images, which are kept as long as its history."""


class StoredImage(NamedTuple):
    media_type: str
    data: bytes


_PUT = insert_new(images, key=("session_id", "digest"))
_SIZE = select(func.coalesce(func.sum(func.length(images.c.data)), 0)).where(images.c.session_id == bindparam("sid"))


def put(connection: Connection, session_id: str, found: Mapping[str, StoredImage]) -> None:
    """Adds images by digest; those that the session has stay as they are."""
    for digest, image in found.items():
        connection.execute(_PUT, {"session_id": session_id, "digest": digest, **image._asdict()})


def get(connection: Connection, session_id: str, digest: str) -> StoredImage | None:
    return of(connection, session_id, [digest]).get(digest)


def of(connection: Connection, session_id: str, digests: Collection[str]) -> dict[str, StoredImage]:
    """Those of the images that the session has."""
    query = select(images.c.digest, images.c.media_type, images.c.data)
    query = query.where(images.c.session_id == session_id, images.c.digest.in_(digests))
    return {row.digest: StoredImage(row.media_type, bytes(row.data)) for row in connection.execute(query)}


def total_bytes(connection: Connection, session_id: str) -> int:
    """Bytes of all images of a session."""
    return int(connection.execute(_SIZE, {"sid": session_id}).scalar_one())


def copy(connection: Connection, source: str, target: str, digests: Collection[str]) -> None:
    """Copies images of one session to another."""
    for digest in digests:
        # One by one, so that none is held in memory.
        found = select(bindparam("target", type_=String), images.c.digest, images.c.media_type, images.c.data).where(
            images.c.session_id == source, images.c.digest == digest
        )
        names = ["session_id", "digest", "media_type", "data"]
        connection.execute(insert(images).from_select(names, found), {"target": target})
