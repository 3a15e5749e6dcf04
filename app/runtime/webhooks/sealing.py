"""The secrets of webhooks as the database keeps them: encrypted, unless a node of a cluster has no key."""

from __future__ import annotations

from app.runtime.vault import Vault

SEALED = "sealed:"
"""The prefix of an encrypted secret; an unencrypted one begins with `whsec_`."""


async def sealed(vault: Vault, webhook_id: str, secret: str) -> str:
    """A secret to be stored. Raises `StorageError` if the key's file cannot be used."""
    if not vault.has_key:
        return secret
    return SEALED + await vault.seal(_place(webhook_id), secret)


async def opened(vault: Vault, webhook_id: str, text: str) -> str | None:
    """The secret of a stored text; None if it was encrypted with another key. Raises `UnavailableError` without a key,
    and `StorageError`."""
    if not is_sealed(text):
        return text
    return await vault.open(_place(webhook_id), text.removeprefix(SEALED))


def is_sealed(text: str) -> bool:
    return text.startswith(SEALED)


def _place(webhook_id: str) -> str:
    return f"webhook\0{webhook_id}"
