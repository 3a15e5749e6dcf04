"""The store in a folder and in S3: what its interface says, and what an operator reads if it cannot be used."""

from __future__ import annotations

import builtins
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from app.cluster.object_store import open_store
from app.errors import WorkspaceStoreError
from app.runtime.workspaces.store import ObjectMissingError, ObjectStore
from tests.behavior.preloaded import ROOT
from tests.requirements import need
from tests.s3 import CREDENTIALS, S3Server


@pytest.fixture(params=["folder", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    need("s3")
    if request.param == "folder":
        return open_store(f"file://{tmp_path}")
    server: S3Server = request.getfixturevalue("s3_server")
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    return open_store(server.url(tmp_path.name))


async def test_objects_are_kept_listed_copied_and_deleted(store: ObjectStore) -> None:
    await store.put("i/one/packs/a", b"0123456789")
    await store.put("i/one/packs/a", b"abcdefghij")
    await store.copy("i/one/packs/a", "i/two/packs/a")
    assert await store.get("i/two/packs/a") == b"abcdefghij"
    assert list(await store.get_ranges("i/one/packs/a", [(0, 2), (8, 10)])) == [b"ab", b"ij"]
    assert list(await store.list("i/one/")) == ["i/one/packs/a"]
    assert sorted(await store.folders("i/")) == ["one", "two"]
    assert list(await store.folders("other/")) == []
    await store.delete(["i/one/missing", "i/one/packs/a", "i/one/packs/a"])
    assert list(await store.list("i/one/")) == []
    for missing in (store.get("i/one/packs/a"), store.copy("i/one/packs/a", "b"), store.get_ranges("x", [(0, 1)])):
        with pytest.raises(ObjectMissingError):
            await missing


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://bucket/prefix", "must be s3://BUCKET/PREFIX"),
        ("file://host/folder", "must be s3://BUCKET/PREFIX"),
        ("s3://key:secret@bucket/prefix", "must be s3://BUCKET/PREFIX"),
        ("s3://bucket?endpoint=http://key:secret@host:9000", "must have no user or password"),
        ("s3://bucket?secret_access_key=secret", "unknown options: secret_access_key"),
        ("file:///no/such/folder", "/no/such/folder of the workspace store does not exist"),
    ],
)
def test_an_invalid_setting_is_named_without_its_secrets(url: str, words: str) -> None:
    need("s3")
    with pytest.raises(WorkspaceStoreError, match=words) as refused:
        open_store(url)
    assert "secret@" not in str(refused.value)
    assert "=secret" not in str(refused.value)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def absent(name: str, *more: Any, **named: Any) -> Any:
        if name.startswith("obstore"):
            raise ImportError(name)
        return real(name, *more, **named)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(WorkspaceStoreError, match=r"pip install 'palimpsest\[cluster\]'"):
        open_store("s3://bucket")


@pytest.mark.slow
def test_a_server_without_a_store_imports_none() -> None:
    code = (
        "import sys, app.server, app.bootstrap.service, app.cli.serve\n"
        "found = {'obstore', 'app.cluster.object_store'} & set(sys.modules)\n"
        "sys.exit(f'imported: {found}' if found else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
