"""Images on their way from the database to a model: encoded once and kept for the next steps, as long as all sessions
together need little memory."""

from __future__ import annotations

import asyncio
import base64
from collections import OrderedDict
from collections.abc import Collection, Mapping

from app.db.engine import Database
from app.db.repositories import images
from app.db.repositories.images import StoredImage

CACHE_CHARS = 64 * 1024 * 1024
"""Memory for the images of all sessions, in characters of base64: two contexts full of them."""


class ImageCache:
    """Encoded images by digest, the least recently used of which are dropped. A digest names the same image in all
    sessions."""

    def __init__(self, most: int = CACHE_CHARS) -> None:
        self._most = most
        self._held = 0
        self._found: OrderedDict[str, str] = OrderedDict()

    def get(self, digests: Collection[str]) -> dict[str, str]:
        """Those that are here."""
        found = {digest: self._found[digest] for digest in digests if digest in self._found}
        for digest in found:
            self._found.move_to_end(digest)
        return found

    def add(self, encoded: Mapping[str, str]) -> None:
        for digest, text in encoded.items():
            if digest not in self._found and len(text) <= self._most:
                self._found[digest] = text
                self._held += len(text)
        while self._held > self._most:
            _, dropped = self._found.popitem(last=False)
            self._held -= len(dropped)


class SessionImages:
    """The images of one session. It never reads another session's rows."""

    def __init__(self, database: Database, session_id: str, cache: ImageCache) -> None:
        self._database = database
        self._session_id = session_id
        self._cache = cache

    async def __call__(self, digests: Collection[str]) -> Mapping[str, str]:
        """In base64, by digest; those that are not stored are missing."""
        found = self._cache.get(digests)
        missing = [digest for digest in digests if digest not in found]
        if missing:
            stored = await self._database.read(lambda c: images.of(c, self._session_id, missing))
            encoded = await asyncio.to_thread(_encoded, stored)
            self._cache.add(encoded)
            found |= encoded
        return found


def _encoded(stored: Mapping[str, StoredImage]) -> dict[str, str]:
    return {digest: base64.b64encode(image.data).decode() for digest, image in stored.items()}
