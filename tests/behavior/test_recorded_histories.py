"""The histories of `palimpsest eval` match a new recording of their stories."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from app.messages import Message
from benchmarks.histories.recorder import record_all
from benchmarks.histories.stories import STORIES
from evals import load_packaged
from evals.histories import SUFFIX, parse_history
from tests.requirements import need

NAMES = [story.name for story in STORIES]


def spoken(message: Message) -> tuple[object, ...]:
    """The content of a message that does not depend on when and where it was recorded."""
    calls = [(call.name, call.arguments) for call in message.tool_calls]
    results = [(result.name, result.status, result.exit_code) for result in message.tool_results]
    return message.role, message.text, calls, results


def test_every_story_is_packaged() -> None:
    assert len(set(NAMES)) == len(NAMES)
    for story in STORIES:
        packaged = load_packaged(story.name)
        assert (packaged.about, packaged.probes) == (story.about, story.probes), f"{story.name}: record it again"


@pytest.mark.extended
@pytest.mark.bubblewrap
def test_replaying_a_story_gives_the_packaged_history(tmp_path: Path) -> None:
    need("bubblewrap")
    asyncio.run(record_all(["other_scripts"], tmp_path))
    again = parse_history((tmp_path / f"other_scripts{SUFFIX}").read_bytes(), "again")
    packaged = load_packaged("other_scripts")
    assert [spoken(m) for m in again.conversation()] == [spoken(m) for m in packaged.conversation()]
    assert again.probes == packaged.probes
