"""A store of snapshots in S3 or in a folder that all machines share, through obstore, which is imported only here and
only on use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from app.errors import WorkspaceStoreError
from app.runtime.workspaces.store import ObjectMissingError

if TYPE_CHECKING:
    from obstore.store import LocalStore, S3Store

RETRY_S, RETRIES = 20, 5
"""Seconds and attempts after which a request fails; the snapshot is then tried again later."""
REQUEST_S = "60s"
OPTIONS = frozenset({"endpoint", "region", "virtual_hosted_style_request"})


def open_store(url: str) -> StoredObjects:
    """The store at `s3://bucket/prefix?endpoint=…&region=…` or `file:///folder`; S3's credentials are those of the
    usual `AWS_` variables. Blocks. Raises `WorkspaceStoreError` for an invalid URL, a folder that is missing, and if
    `palimpsest[cluster]` is not installed."""
    try:
        import obstore  # noqa: F401
    except ImportError as exc:
        raise WorkspaceStoreError(
            "PALIMPSEST_WORKSPACE_STORE needs an extra: pip install 'palimpsest[cluster]'."
        ) from exc
    parts = urlsplit(url)
    if parts.scheme == "file" and not parts.netloc and parts.path:
        return _open_folder(Path(unquote(parts.path)))
    if parts.scheme == "s3" and parts.hostname and not parts.username:
        return _open_bucket(parts.hostname, parts.path.strip("/"), dict(parse_qsl(parts.query)))
    raise WorkspaceStoreError("PALIMPSEST_WORKSPACE_STORE must be s3://BUCKET/PREFIX?endpoint=URL or file:///FOLDER.")


def _open_folder(folder: Path) -> StoredObjects:
    from obstore.store import LocalStore

    if not folder.is_dir():
        # Not created: it may be the place of a share that is not mounted.
        raise WorkspaceStoreError(f"The folder {folder} of the workspace store does not exist.")
    return StoredObjects(LocalStore(folder, automatic_cleanup=True), f"folder {folder}")


def _open_bucket(bucket: str, prefix: str, options: dict[str, str]) -> StoredObjects:
    from obstore.exceptions import BaseError
    from obstore.store import S3Store

    if unknown := options.keys() - OPTIONS:
        raise WorkspaceStoreError(f"The workspace store has unknown options: {', '.join(sorted(unknown))}.")
    config: Any = {"region": "us-east-1", **options} if "endpoint" in options else options
    endpoint = urlsplit(options.get("endpoint", ""))
    if endpoint.username is not None or endpoint.password is not None:
        raise WorkspaceStoreError("PALIMPSEST_WORKSPACE_STORE must have no user or password: set AWS_ACCESS_KEY_ID.")
    plain = endpoint.scheme == "http"
    try:
        store = S3Store(
            bucket,
            prefix=prefix or None,
            config=config,
            client_options={"allow_http": plain, "timeout": REQUEST_S, "connect_timeout": "5s"},
            retry_config={"max_retries": RETRIES, "retry_timeout": timedelta(seconds=RETRY_S)},
        )
    except (BaseError, ValueError) as exc:
        raise WorkspaceStoreError("The options of the workspace store are invalid.") from exc
    at = f" at {endpoint.netloc}" if endpoint.netloc else ""
    return StoredObjects(store, f"bucket {bucket}{at}")


class StoredObjects:
    """Implements `ObjectStore`."""

    def __init__(self, store: S3Store | LocalStore, description: str) -> None:
        self._store = store
        self._description = description

    def describe(self) -> str:
        return self._description

    async def put(self, key: str, data: bytes) -> None:
        with self._translated():
            await self._store.put_async(key, data, use_multipart=False)

    async def get(self, key: str) -> bytes:
        with self._translated():
            return bytes(await (await self._store.get_async(key)).bytes_async())

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes]:
        starts, ends = [start for start, _ in ranges], [end for _, end in ranges]
        with self._translated():
            return [bytes(part) for part in await self._store.get_ranges_async(key, starts=starts, ends=ends)]

    async def copy(self, source: str, target: str) -> None:
        with self._translated():
            await self._store.copy_async(source, target)

    async def list(self, prefix: str) -> Sequence[str]:
        with self._translated():
            return [found["path"] async for page in self._store.list(prefix) for found in page]

    async def folders(self, prefix: str) -> Sequence[str]:
        with self._translated():
            found = await self._store.list_with_delimiter_async(prefix)
        return [path.rstrip("/").rpartition("/")[2] for path in found["common_prefixes"]]

    async def delete(self, keys: Iterable[str]) -> None:
        # One by one: a folder's deletion ends at the first object that is missing.
        for key in keys:
            with suppress(ObjectMissingError), self._translated():
                await self._store.delete_async(key)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        from obstore.exceptions import BaseError

        try:
            yield
        except FileNotFoundError as exc:
            raise ObjectMissingError("The snapshot is not in the workspace store.") from exc
        except (BaseError, OSError, ValueError) as exc:
            # The library's text has addresses and the server's answer, which may quote the request.
            what = type(exc).__name__.removesuffix("Error") or "Error"
            raise WorkspaceStoreError(f"The workspace store, {self._description}, does not answer ({what}).") from exc
