"""Files of a session's workspace."""

from __future__ import annotations

from typing import Literal

from app.messages import Timestamp, Value


class FileView(Value):
    path: str
    type: Literal["file", "directory", "symlink", "other"]
    size: int
    modified_at: Timestamp


class FileList(Value):
    path: str
    items: tuple[FileView, ...]
    truncated: bool
