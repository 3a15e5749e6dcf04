"""Which tools a session gets if it names none, by its model's window."""

from __future__ import annotations

from app.tools.edit import EditFile
from app.tools.files import ReadFile, WriteFile
from app.tools.history_search import HistorySearch
from app.tools.recall import Recall
from app.tools.search import SearchFiles
from app.tools.shell import ExecuteCommand

_LEAST = (ExecuteCommand.name, WriteFile.name, Recall.name)
_FILES = (*_LEAST, ReadFile.name, EditFile.name)
_SEARCH = (*_FILES, SearchFiles.name, HistorySearch.name)

LEAN_SETS: tuple[tuple[int, tuple[str, ...]], ...] = ((3_071, _LEAST), (6_143, _FILES), (8_192, _SEARCH))
"""Largest window in tokens of each set. `recall` is in all of them, since a small window soon clears old outputs and
their placeholders name it; a command can do whatever else is left out."""


def tools_for(window: int) -> tuple[str, ...] | None:
    """The names of the tools for a window of this many tokens, None for all of them. Depends on nothing else, so that a
    window always gives the same set and a provider's cache matches."""
    return next((names for most, names in LEAN_SETS if window <= most), None)
