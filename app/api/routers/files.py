"""Files of a session's workspace."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal
from urllib.parse import quote

from fastapi import APIRouter, Header, Path, Query, Request, Response
from starlette.convertors import PathConvertor, register_url_convertor

from app.api.archive_bodies import pieces, spooled
from app.api.dependencies import STRICT, Services, SessionId
from app.api.download_budget import ArchiveShare, DownloadShare, ListingShare
from app.api.forwarding import as_of_header, forwarded
from app.api.openapi import ARCHIVE_BODY, FILE_CONTENT, RAW_BODY, TAR_CONTENT, UPLOADED
from app.api.problems import problems
from app.api.request_bodies import JsonRoute
from app.api.responses import ArchiveResponse, RawResponse, has_tag, safe_headers
from app.errors import NotFoundError
from app.runtime.values.history import FileList, UnpackedArchive
from app.runtime.values.sessions import Text


class FilePathConvertor(PathConvertor):
    """Like `{path:path}`, but also matches newlines, which a file name may contain."""

    regex = r"[\s\S]*"


register_url_convertor("file", FilePathConvertor())

router = APIRouter(prefix="/v1/sessions/{session_id}", tags=["files"], route_class=JsonRoute, dependencies=STRICT)

STORED = ("workspace_store_unavailable", "snapshot_invalid", "snapshot_missing")
"""Problems with a workspace that another machine had."""
SANDBOXED = (
    "session_not_found",
    "file_not_found",
    "outside_workspace",
    "invalid_path",
    "not_a_directory",
    "permission_denied",
    "sandbox_unavailable",
    "too_many_sandboxes",
    "sandbox_error",
    *STORED,
)

FilePath = Annotated[
    Text,
    Path(description="Path in the workspace; slashes are not escaped.", examples=["src/main.py"]),
]


@router.get("/files", response_model=FileList, responses=problems(*SANDBOXED, "too_many_downloads"))
async def list_files(
    services: Services,
    request: Request,
    session_id: SessionId,
    share: ListingShare,
    path: Annotated[
        Text,
        Query(max_length=4096, description="A directory in the workspace; omit it for the workspace itself."),
    ] = "",
) -> Response:
    """The entries of a directory, sorted by path: at most 10,000 entries and 2 MiB; `truncated` is true if there are
    more."""
    if (answer := await forwarded(services, request, session_id)) is not None:
        return answer
    listing = await services.files.list(session_id, path)
    body = await asyncio.to_thread(lambda: listing.model_dump_json().encode())
    share.shrink(len(body))
    return Response(body, media_type="application/json", headers=as_of_header(listing.as_of))


@router.get(
    "/files/{path:file}",
    response_class=Response,
    responses={**FILE_CONTENT, **problems(*SANDBOXED, "not_a_file", "range_not_satisfiable", "too_many_downloads")},
)
async def download_file(
    services: Services,
    request: Request,
    session_id: SessionId,
    path: FilePath,
    share: DownloadShare,
    if_none_match: Annotated[str | None, Header(description="An `ETag`: 304 if the file is that version.")] = None,
) -> Response:
    """A file's content; supports `Range`. `Workspace-As-Of` says that it is from a snapshot, and of when."""
    if (answer := await forwarded(services, request, session_id)) is not None:
        return answer
    raw = await services.files.open(session_id, _named(path))
    tag = {} if raw.file is None else {"ETag": f'"{raw.file.version}"'}
    if raw.file is not None and if_none_match is not None and _names(if_none_match, raw.file.version):
        await raw.file.aclose()
        return Response(status_code=304, headers=tag)
    response = RawResponse(raw, name=path.rsplit("/", 1)[-1], media_type="application/octet-stream")
    response.headers.update(as_of_header(raw.as_of) | tag)
    return response


@router.put(
    "/files/{path:file}",
    status_code=201,
    response_class=Response,
    openapi_extra={"requestBody": RAW_BODY},
    responses={
        **UPLOADED,
        **problems(
            *SANDBOXED,
            "subagent_session",
            "not_a_file",
            "workspace_full",
            "workspace_elsewhere",
            "workspace_too_large",
            "precondition_failed",
        ),
    },
)
async def upload_file(
    services: Services,
    request: Request,
    session_id: SessionId,
    path: FilePath,
    if_match: Annotated[str | None, Header(description="An `ETag`: 412 unless the file is that version.")] = None,
    if_none_match: Annotated[str | None, Header(description="With `*`: 412 if the file already exists.")] = None,
) -> Response:
    """Stores the body as a file, whatever its content type; creates missing directories. `If-Match` prevents replacing
    what another client has written since the file was read."""
    body = await request.body()
    if (answer := await forwarded(services, request, session_id, "change", body)) is not None:
        return answer

    def allows(version: str | None) -> bool:
        if if_match is not None and (version is None or not _names(if_match, version)):
            return False
        return if_none_match is None or version is None or not _names(if_none_match, version)

    outcome, version = await services.files.write(session_id, _named(path), body, allows)
    tag = {"ETag": f'"{version}"'}
    if outcome == "replaced":
        return Response(status_code=204, headers=tag)
    return Response(status_code=201, headers={"Location": quote(request.scope["path"])} | tag)


def _names(condition: str, version: str) -> bool:
    """Whether a condition names a version, or all."""
    return condition.strip() == "*" or has_tag(condition, f'"{version}"')


@router.get(
    "/archive",
    response_class=Response,
    responses={
        **TAR_CONTENT,
        **problems("session_not_found", "sandbox_unavailable", "sandbox_error", "too_many_downloads", *STORED),
    },
)
async def get_archive(services: Services, request: Request, session_id: SessionId, share: ArchiveShare) -> Response:
    """The workspace as a tar file. `Workspace-As-Of` says that it is from a snapshot, and of when."""
    if (answer := await forwarded(services, request, session_id)) is not None:
        return answer
    archive = await services.files.archive(session_id)
    headers = safe_headers(f"{session_id}.tar") | as_of_header(archive.as_of)
    return ArchiveResponse(archive.pieces, media_type="application/x-tar", headers=headers)


@router.put(
    "/archive",
    response_model=UnpackedArchive,
    openapi_extra={"requestBody": ARCHIVE_BODY},
    responses=problems(
        "subagent_session",
        *SANDBOXED,
        "invalid_archive",
        "archive_too_large",
        "command_running",
        "workspace_full",
        "workspace_elsewhere",
        "workspace_too_large",
    ),
)
async def put_archive(
    services: Services,
    request: Request,
    session_id: SessionId,
    path: Annotated[
        Text,
        Query(max_length=4096, description="A directory of the workspace, created if missing; omit it for all."),
    ] = "",
    mode: Annotated[
        Literal["merge", "replace"],
        Query(description="`merge` keeps other files of the directory, `replace` removes them."),
    ] = "merge",
) -> UnpackedArchive | Response:
    """Unpacks a tar, tar.gz, tar.zst or zip in the workspace, recognized by its content: all of it or, if one of its
    entries is refused, nothing. Refused while a command runs. Links are never followed."""
    # Before the body is read, which may take long.
    await services.files.check_no_command(session_id)
    async with spooled(request) as archive:
        if (answer := await forwarded(services, request, session_id, "change", pieces(archive))) is not None:
            return answer
        return await services.files.unpack(session_id, path, archive, replace=mode == "replace")


def _named(path: str) -> str:
    if not path:
        raise NotFoundError("The path is empty.", code="file_not_found")
    return path
