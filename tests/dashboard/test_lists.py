"""The page's own lists of events and tools are the server's."""

from __future__ import annotations

from playwright.async_api import Page

from app.events import DURABLE_EVENTS
from app.tools import default_tools
from tests.dashboard import IN_BROWSER
from tests.dashboard.browser import module

pytestmark = [*IN_BROWSER]


async def test_the_filter_of_events_lists_every_type_in_the_log(bare: Page) -> None:
    listed = await module(bare, "state/event_log.js", "({ TYPES }) => Object.values(TYPES).flat()")
    assert sorted(listed) == sorted(event.type for event in DURABLE_EVENTS)


async def test_every_tool_has_words_and_can_be_chosen_for_approval(bare: Page) -> None:
    listed = await module(bare, "components/tool_labels.js", "({ TOOL_NAMES }) => TOOL_NAMES")
    assert sorted(listed) == sorted(tool.name for tool in default_tools())
