"""Checkpoints of a session's workspace, and what changed between two of them."""

from __future__ import annotations

from typing import Literal

from app.messages import Timestamp, Value

CheckpointReason = Literal["run_started", "run_ended", "before_restore"]


class Checkpoint(Value):
    """The workspace at a moment. `run` is the number of the session's run, `message_id` the last message of its history
    then; `files` and `bytes` are what the checkpoint covers."""

    id: str
    at: Timestamp
    run: int
    reason: CheckpointReason
    message_id: str | None
    files: int
    bytes: int


class UncoveredPath(Value):
    """A path that no checkpoint covers, with everything below it: because of a .gitignore file (`ignored`), its size
    (`too_large`), as a directory that can be made again (`cache`), as git's own data (`git`), as Palimpsest's
    (`internal`), because it cannot be read (`unreadable`), or because a value of the session's secrets is in it or in
    its path (`secret`)."""

    path: str
    reason: Literal["ignored", "too_large", "cache", "git", "internal", "unreadable", "secret"]


class Uncovered(Value):
    """What the newest look at the workspace found that no checkpoint covers; `truncated` is true if there is more."""

    items: tuple[UncoveredPath, ...] = ()
    truncated: bool = False


class CheckpointList(Value):
    """Oldest first."""

    items: tuple[Checkpoint, ...]
    not_covered: Uncovered


class FileChange(Value):
    """A file that differs. `old_path` is what a renamed file was called. A binary file has no lines to count. Bytes of
    a path that are not UTF-8 are shown as U+FFFD; the patch has them as they are."""

    path: str
    status: Literal["added", "modified", "deleted", "renamed"]
    additions: int
    deletions: int
    binary: bool
    old_path: str | None = None


class ChangeList(Value):
    """The files that differ, sorted by path. `from_checkpoint` is null if the session has none yet, `to_checkpoint` if
    the workspace was compared as it is now; `truncated` is true if there are more files. `as_of` is the time of the
    workspace's newest snapshot if that was compared: the workspace is on another machine."""

    from_checkpoint: str | None
    to_checkpoint: str | None
    items: tuple[FileChange, ...]
    additions: int
    deletions: int
    truncated: bool
    not_covered: Uncovered
    as_of: Timestamp | None = None


class Skipped(Value):
    """Paths that a restoration has left as they were, with everything below them, since only one of the checkpoints
    `checkpoint` and `saved` covers them; `truncated` is true if there are more."""

    items: tuple[str, ...] = ()
    truncated: bool = False


class RestoreResult(Value):
    """`checkpoint` is the one that was restored, `saved` the workspace before that: restore it to undo. What is not
    covered stayed as it was; `skipped` is what the checkpoint would have changed otherwise."""

    checkpoint: Checkpoint
    saved: Checkpoint
    not_covered: Uncovered
    skipped: Skipped = Skipped()
