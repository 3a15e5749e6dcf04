"""Paths as a model or a client gives them, resolved as text, and the errors they can cause.

Nothing here looks at a file system: links are never followed, so `..` can be resolved without it.
"""

from __future__ import annotations

import re

from app.errors import (
    ForbiddenError,
    InvalidRequestError,
    NotFoundError,
    SandboxError,
    TooLargeError,
    WorkspaceFullError,
)
from app.sandbox.base import WORKSPACE

MAX_NAME_BYTES = 255
"""NAME_MAX of every file system a workspace can be on."""
MAX_PATH_BYTES = 4095
"""PATH_MAX of Linux without the final NUL."""


_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


def check_session_id(session_id: str) -> str:
    """Returns the id if it can name directories, containers and volumes. Raises `InvalidRequestError` if not."""
    if not _SESSION_ID.fullmatch(session_id):
        raise InvalidRequestError(f"{show(session_id)} cannot be the id of a session.", code="invalid_session_id")
    return session_id


def resolve(path: str) -> tuple[str, ...]:
    """The names that lead from the workspace to `path`; the empty tuple is the workspace itself.

    A relative path starts at the workspace, an absolute one must be under `/workspace`. Raises `ForbiddenError`
    (`outside_workspace`) as soon as a prefix of the path leaves the workspace, and `InvalidRequestError`
    (`invalid_path`) for a path that no file can have.
    """
    _check_text(path)
    names = [name for name in path.split("/") if name not in ("", ".")]
    if path.startswith("/"):
        if names[:1] != [WORKSPACE.strip("/")]:
            raise outside_workspace(path)
        names = names[1:]
    return _fold(names, path)


def _fold(names: list[str], path: str) -> tuple[str, ...]:
    folded: list[str] = []
    for name in names:
        if name != "..":
            folded.append(name)
        elif folded:
            folded.pop()
        else:
            raise outside_workspace(path)
    return tuple(folded)


def _check_text(path: str) -> None:
    if "\0" in path:
        raise invalid_path(path, "contains a NUL character")
    try:
        size = len(path.encode())
    except UnicodeEncodeError as exc:
        raise invalid_path(path, "is not valid Unicode") from exc
    if size > MAX_PATH_BYTES:
        raise invalid_path(path, f"is longer than {MAX_PATH_BYTES} bytes")
    if any(len(name.encode()) > MAX_NAME_BYTES for name in path.split("/")):
        raise invalid_path(path, f"has a name longer than {MAX_NAME_BYTES} bytes")


def show(path: str, limit: int = 200) -> str:
    """`path` quoted for a message: one line, no control characters, at most about `limit` characters."""
    quoted = ascii(path) if not path.isprintable() else f"'{path}'"
    return quoted if len(quoted) <= limit else quoted[: limit - 1] + "…"


def clean_name(name: bytes) -> str:
    """A file's name as text. What is not UTF-8 becomes U+FFFD, so that the name can be sent as JSON."""
    return name.decode("utf-8", "replace")


def outside_workspace(path: str) -> ForbiddenError:
    return ForbiddenError(f"{show(path)} leads outside {WORKSPACE}; links are not followed.", code="outside_workspace")


def invalid_path(path: str, reason: str) -> InvalidRequestError:
    return InvalidRequestError(f"The path {show(path)} {reason}.", code="invalid_path")


def file_not_found(path: str) -> NotFoundError:
    return NotFoundError(f"There is no {show(path)} in the workspace.", code="file_not_found")


def not_a_file(path: str) -> InvalidRequestError:
    return InvalidRequestError(f"{show(path)} is not a regular file.", code="not_a_file")


def not_a_directory(path: str) -> InvalidRequestError:
    return InvalidRequestError(f"{show(path)} is not a directory.", code="not_a_directory")


def closed(path: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"{show(path)} may not be accessed, or was moved in the meantime.", code="permission_denied"
    )


def too_large(path: str, size: int, limit: int) -> TooLargeError:
    return TooLargeError(f"{show(path)} is {size} bytes; at most {limit} can be read.", size=size, limit=limit)


def became_shorter(path: str) -> SandboxError:
    return SandboxError(f"{show(path)} became shorter while it was read.")


def workspace_full(path: str) -> WorkspaceFullError:
    return WorkspaceFullError(f"{show(path)} cannot be written: the disk of the workspace is full.")


def too_many_entries(limit: int) -> TooLargeError:
    return TooLargeError(f"The workspace has more than {limit:,} files and directories.", code="workspace_too_large")


def in_the_way(path: bytes) -> InvalidRequestError:
    """An entry of an archive cannot be unpacked."""
    shown = clean_name(path)
    return InvalidRequestError(
        f"{show(shown)} cannot be unpacked: a directory, link or file of another type is there; nothing was unpacked.",
        code="invalid_archive",
        entry=shown,
    )
