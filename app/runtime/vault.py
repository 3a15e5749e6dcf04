"""Encrypts the secrets of sessions and webhooks. The key is the operator's setting, or a file that only the server's
user can read. A cipher text belongs to its place, so that it is of no use in another row."""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog
from sqlalchemy import Row

from app.errors import StorageError, UnavailableError
from app.tools.masking import Masking

NONCE_BYTES = 12
"""Of AES-GCM; random, which is safe for some billions of values."""

KEY_MISSING = (
    "PALIMPSEST_SECRET_KEY is not set: session secrets, including credentials of source.git, are refused;"
    " secrets of webhooks are stored unencrypted"
)
KEY_DIFFERS = (
    "PALIMPSEST_SECRET_KEY differs from that of the node that started last: neither can read what the other has"
    " encrypted"
)

log = structlog.get_logger(__name__)


class Vault:
    """Encrypts and decrypts. The key is read when it is first needed, and a file is made then if there is none."""

    def __init__(self, key: str | None, file: Path | None) -> None:
        """Without `key` it is in `file`; None for a server that has to be given one."""
        self._key = key
        self._file = file
        self._cipher: Any = None

    @property
    def has_key(self) -> bool:
        """Whether there is a key, or a place for one."""
        return self._key is not None or self._file is not None

    def fingerprint(self, salt: str) -> str | None:
        """Tells the operator's key from another one; None if the key is in a file."""
        if self._key is None:
            return None
        return hashlib.sha256(f"palimpsest key of\0{salt}\0{self._key}".encode()).hexdigest()[:16]

    async def seal(self, place: str, value: str) -> str:
        """Raises `UnavailableError` without a key, and `StorageError` if its file cannot be used."""
        cipher = await self._ready()
        nonce = secrets.token_bytes(NONCE_BYTES)
        return b64encode(nonce + cipher.encrypt(nonce, value.encode(), place.encode())).decode()

    async def open(self, place: str, text: str) -> str | None:
        """What was sealed for this place; None if it was with another key. Raises as `seal`."""
        cipher = await self._ready()
        # After `_ready`, which imports the library in a thread.
        from cryptography.exceptions import InvalidTag

        data = b64decode(text)
        try:
            plain: bytes = cipher.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], place.encode())
        except InvalidTag:
            return None
        return plain.decode()

    async def encrypt(self, session_id: str, name: str, value: str) -> str:
        """The secret of a session. Raises as `seal`."""
        return await self.seal(_place(session_id, name), value)

    async def decrypt(self, rows: Sequence[Row[Any]]) -> Mapping[str, str]:
        """The values by name. Those that were encrypted with another key are left out, and logged."""
        found: dict[str, str] = {}
        for row in rows:
            value = await self.open(_place(row.session_id, row.name), row.value)
            if value is None:
                log.error("secret_unreadable", session_id=row.session_id, name=row.name, reason="other key")
            else:
                found[row.name] = value
        return found

    async def _ready(self) -> Any:
        if self._cipher is None:
            self._cipher = await asyncio.to_thread(self._open)
        return self._cipher

    def _open(self) -> Any:
        # Imported when it is needed: most servers have no secrets.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        key = self._key or self._from_file()
        return AESGCM(hashlib.sha256(b"palimpsest secrets\0" + key.encode()).digest())

    def _from_file(self) -> str:
        if self._file is None:
            raise UnavailableError(
                "Set PALIMPSEST_SECRET_KEY to the same value on all nodes: they share no key file.",
                code="secret_key_missing",
            )
        try:
            return _read_or_make(self._file, lambda: secrets.token_urlsafe(32))
        except OSError as error:
            raise StorageError(f"The key of the secrets, {self._file}, cannot be used: {error.strerror}.") from error


async def read_masking(vault: Vault, rows: Sequence[Row[Any]], session_id: str, *, by_line: bool = False) -> Masking:
    """The secrets in these rows: those of the session, and others that are only masked. Without the key the session has
    none: its runs continue."""
    own = [row for row in rows if row.session_id == session_id]
    try:
        others = [item for row in rows if row not in own for item in (await vault.decrypt([row])).items()]
        return Masking(await vault.decrypt(own), others=others, by_line=by_line)
    except (StorageError, UnavailableError) as error:
        log.error("secrets_unreadable", session_id=session_id, reason=error.detail)
        return Masking({})


def _place(session_id: str, name: str) -> str:
    return f"{session_id}\0{name}"


def _read_or_make(path: Path, make: Callable[[], str]) -> str:
    """A file's content; a new file appears whole, whoever else makes it at the same time."""
    if not path.exists():
        fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(make())
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):
                os.link(fresh, path)
        finally:
            fresh.unlink()
    if path.stat().st_mode & 0o077:
        path.chmod(0o600)
    return path.read_text()
