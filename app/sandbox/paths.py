"""Paths as a model or a client gives them, resolved as text, where the links on their way lead, and the errors they
can cause. Nothing here looks at a file system.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

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
MAX_TURNS = 80
"""Links that one path may lead through, and climbs in their targets. Linux follows 40 links; each may climb once."""


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


class Route:
    """The way from the workspace along a path, name by name, through links that stay inside.

    `place` are the names walked so far, of which none is a link and none is `..`. The caller looks at the file system:
    it takes the `next` name, and then calls `enter` if that is a directory, or `follow` if it is a link.
    """

    def __init__(self, names: Sequence[str], path: str) -> None:
        """`names` is the resolved `path`."""
        self._path = path
        self._ahead = list(reversed(names))
        self._asked = len(names)
        self._turns = 0
        self._is_climbing = False
        self._target = ""
        self.place: list[str] = []
        self.name = ""
        """The name that was taken last."""
        self.is_of_link = False
        """Whether that is from the target of a link."""

    def next(self) -> str | None:
        """Takes the next name; None at the end, with the place being where the path leads. Raises `ForbiddenError` if
        a link leads out."""
        while self._ahead:
            self.is_of_link = len(self._ahead) > self._asked
            name = self._ahead.pop()
            self._asked = min(self._asked, len(self._ahead))
            if name == "..":
                if not self.place:
                    raise self._outside()
                self._count(not self._is_climbing)
                self._is_climbing = True
                self.place.pop()
            elif name not in ("", "."):
                self.name, self._is_climbing = name, False
                return name
        return None

    @property
    def is_last(self) -> bool:
        """Whether only the last name was left, so that it need not be a directory."""
        return not self._ahead

    def enter(self) -> None:
        self.place.append(self.name)

    def enter_rest(self) -> None:
        """Enters the last name and those after it, which are to be created."""
        self.place += [self.name, *reversed(self._ahead)]
        self._ahead.clear()

    def follow(self, target: str) -> None:
        """Continues with a link's target. Raises `ForbiddenError` if that is outside, and `NotFoundError` if there were
        too many links."""
        self._target = target
        self._count()
        names = target.split("/")
        if target.startswith("/"):
            names = [name for name in names if name not in ("", ".")]
            if names[:1] != [WORKSPACE.strip("/")]:
                raise self._outside()
            self.place, names = [], names[1:]
        self._ahead += reversed(names)

    def missing(self) -> NotFoundError:
        """The error if the last name does not exist."""
        if not self.is_of_link:
            return file_not_found(self._path)
        return NotFoundError(
            f"{show(self._path)} leads through a link to {show(self._target)}, which does not exist.",
            code="file_not_found",
        )

    def _count(self, turns: int = 1) -> None:
        """Bounds how often a caller has to begin again from the workspace."""
        self._turns += turns
        if self._turns > MAX_TURNS:
            raise NotFoundError(
                f"{show(self._path)} leads through too many links, or in a circle.", code="file_not_found"
            )

    def _outside(self) -> ForbiddenError:
        return ForbiddenError(
            f"{show(self._path)} leads outside {WORKSPACE}, through a link to {show(self._target)}.",
            code="outside_workspace",
        )


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
    return ForbiddenError(f"{show(path)} leads outside {WORKSPACE}.", code="outside_workspace")


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
