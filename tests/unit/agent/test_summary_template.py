"""An operator's summary template and the user's instructions: they reach the model, and room in its window is reserved
for them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.agent.compaction.rounds import SUMMARY_CAP
from app.agent.compaction.summary_jobs import INSTRUCTION_ROOM, SummaryJob, summary_job
from app.context.policies import CompactionSettings
from app.context.tokens import estimate_text
from app.server import SUMMARY_TEMPLATE_BYTES
from tests.unit.agent.rounds import Tight, settings_of

TEMPLATE = "### Orders\n" + "- what was ordered\n" * 100


def asked(tight: Tight, window: int, template: str | None, wishes: str | None = None) -> SummaryJob:
    round = tight.round(instructions=wishes)
    round = replace(round, config=replace(round.config, summary_template=template))
    return summary_job(tight.conversation, round, tight.selection(), window)


def test_a_round_includes_them() -> None:
    assert asked(Tight(), 200_000, None).template is None
    assert asked(Tight(), 200_000, TEMPLATE).template == TEMPLATE


def test_if_they_do_not_fit_the_conversation_text_is_used() -> None:
    tight = Tight()
    least, room = 2_000 // 3, estimate_text(TEMPLATE)
    fits = tight.conversation.estimate + INSTRUCTION_ROOM + least
    assert asked(tight, fits, None).prefix is not None
    assert asked(tight, fits, TEMPLATE).prefix is None
    assert asked(tight, fits + room - 1, TEMPLATE).prefix is None
    assert asked(tight, fits + room, TEMPLATE).prefix is not None


WISHES = "Keep the names of all files. " * 100


def test_instructions_take_room_in_the_conversation_too() -> None:
    tight = Tight()
    least, room = 2_000 // 3, estimate_text(WISHES)
    fits = tight.conversation.estimate + INSTRUCTION_ROOM + least
    assert asked(tight, fits, None).prefix is not None
    assert asked(tight, fits + room - 1, None, WISHES).prefix is None
    inside = asked(tight, fits + room, None, WISHES)
    assert inside.prefix is not None
    assert inside.max_tokens == least
    assert asked(tight, fits + room, TEMPLATE, WISHES).prefix is None
    assert asked(tight, fits + room + estimate_text(TEMPLATE), TEMPLATE, WISHES).prefix is not None


@pytest.mark.parametrize("window", [16_000, 64_000])
def test_pieces_of_text_leave_room_for_instructions(window: int) -> None:
    tight = Tight(settings=settings_of("threshold"))
    plain, own = (asked(tight, window, None, wishes).input_tokens for wishes in (None, WISHES))
    assert plain - own == pytest.approx(0.9 * estimate_text(WISHES), abs=1)


@pytest.mark.parametrize("window", [16_000, 64_000])
def test_pieces_of_text_leave_room_for_the_template(window: int) -> None:
    tight = Tight(settings=settings_of("threshold"))
    plain, own = (asked(tight, window, template).input_tokens for template in (None, TEMPLATE))
    assert plain - own == pytest.approx(0.9 * estimate_text(TEMPLATE), abs=1)


def test_the_largest_template_fits_a_small_window_too() -> None:
    largest = "x" * SUMMARY_TEMPLATE_BYTES
    tight = Tight(settings=settings_of("threshold"))
    job = asked(tight, 8_000, largest)
    assert job.input_tokens + job.max_tokens + INSTRUCTION_ROOM + estimate_text(largest) < 8_000


def test_the_setting_documents_the_length_without_a_cap() -> None:
    description = CompactionSettings.model_fields["summary_max_tokens"].description or ""
    assert f"null is {SUMMARY_CAP:,}." in description
    uncapped = Tight(settings=settings_of(summary_max_tokens=None))
    assert asked(uncapped, 200_000, None).max_tokens == SUMMARY_CAP
    assert "a quarter of the window" in description
    assert asked(uncapped, 10_000, None).max_tokens == 2_500
