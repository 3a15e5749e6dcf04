"""The key of the secrets, and what it encrypts."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from app.errors import StorageError, UnavailableError
from app.runtime.vault import Vault, read_masking

KEY = "k" * 32
VALUE = "a value of a secret, ünicode"


def row(value: str, session_id: str = "s", name: str = "TOKEN") -> Any:
    return SimpleNamespace(session_id=session_id, name=name, value=value)


async def test_a_cipher_text_belongs_to_its_place() -> None:
    vault = Vault(KEY, None)
    first, second = [await vault.encrypt("s", "TOKEN", VALUE) for _ in range(2)]
    assert first != second
    assert await vault.decrypt([row(first)]) == {"TOKEN": VALUE}
    with capture_logs() as logs:
        for other in (row(first, session_id="t"), row(first, name="OTHER")):
            assert await vault.decrypt([other]) == {}
        assert await Vault("x" * 32, None).decrypt([row(first)]) == {}
    assert [line["event"] for line in logs] == ["secret_unreadable"] * 3
    assert VALUE not in str(logs)


async def test_the_key_is_made_once_and_is_private(tmp_path: Path) -> None:
    file = tmp_path / "secret.key"
    stored = await Vault(None, file).encrypt("s", "TOKEN", VALUE)
    assert file.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["secret.key"]
    file.chmod(0o644)
    assert await Vault(None, file).decrypt([row(stored)]) == {"TOKEN": VALUE}
    assert file.stat().st_mode & 0o777 == 0o600
    assert await Vault(None, tmp_path / "unused.key").decrypt([]) == {}
    assert not (tmp_path / "unused.key").exists()


async def test_a_run_continues_without_the_key(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for vault, error in ((Vault(None, None), UnavailableError), (Vault(None, tmp_path / "file" / "key"), StorageError)):
        with pytest.raises(error):
            await vault.encrypt("s", "TOKEN", VALUE)
        with capture_logs() as logs:
            assert (await read_masking(vault, [row("AAAA")], "one")).values == {}
        assert [line["event"] for line in logs] == ["secrets_unreadable"]
