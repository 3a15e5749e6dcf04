"""Which tools a session is offered that names none, by the window of its model."""

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
"""Largest window in tokens of each set. `recall` is in all of them, since old outputs are cleared soon in a small
window and their marks name it; whatever else is left out, a command does too."""


def tools_for(window: int) -> tuple[str, ...] | None:
    """The names of the tools for a window of so many tokens, None for all of them. Depends on nothing else, so that one
    window always gives one set, and a provider's cache finds it again."""
    return next((names for most, names in LEAN_SETS if window <= most), None)
