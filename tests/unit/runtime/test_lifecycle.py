"""Sessions created, changed, cancelled and resumed: what may be requested, and what a retry gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.context.policies import PRESETS, public, resolve
from app.db.repositories import sessions
from app.errors import ConflictError, PalimpsestError
from app.messages import Usage, new_id
from app.runtime.admission import (
    MAX_METADATA_BYTES,
    Draft,
    ServiceRules,
    checked_patch,
    limits_within,
)
from app.runtime.admission import draft as make_draft
from app.runtime.content import TITLE_CHARS, unread
from app.runtime.fingerprints import request_fingerprint
from app.runtime.setup import RuntimeSetup
from app.runtime.transactions import lifecycle, runs
from app.runtime.values.sessions import SessionCreate, SessionPatch
from app.sandbox.host.local import LocalFactory
from app.sessions import ContextState, Limits, Outcome, QueueMode, Session, Status
from tests.unit.runtime.stage import Stage, make_sandboxes, make_setup

RULES = ServiceRules(
    default_model="scripted/demo",
    compaction=resolve("threshold"),
    limits=Limits(max_steps=50),
    most=Limits(max_steps=80, max_cost_usd=2.0),
    queue_limit=10,
)


class Office:
    """Creates and changes sessions like the service."""

    def __init__(self, stage: Stage, setup: RuntimeSetup) -> None:
        self.stage, self.setup = stage, setup

    async def draft(self, **asked: Any) -> Draft:
        body = SessionCreate(**asked)
        task = None if body.task is None else unread(body.task)
        return await make_draft(body, task, request_fingerprint(body), self.setup, RULES)

    async def create(self, **asked: Any) -> tuple[Session, bool]:
        draft = await self.draft(**asked)
        return await self.stage.act(lambda c: lifecycle.create(c, draft))

    async def patch(self, **asked: Any) -> Session:
        body = SessionPatch(**asked)
        fields = checked_patch(body, self.setup, RULES)
        session, row = await self.stage.act(lambda c: lifecycle.patch(c, self.stage.session_id, body, fields, RULES))
        assert row.last_seq == session.last_seq
        return session


@pytest.fixture
async def office(stage: Stage, tmp_path: Path) -> Office:
    return Office(stage, make_setup(stage, make_sandboxes(LocalFactory(tmp_path))))


# drafts


async def test_a_session_without_fields_gets_the_servers_settings(office: Office) -> None:
    fields = (await office.draft()).fields
    assert (fields["title"], fields["task"], fields["model"], fields["tools"]) == (None, None, "scripted/demo", None)
    assert fields["sandbox"]["kind"] == "local-unsafe", "the operator's choice, though a request may not make it"
    assert fields["compaction"] == resolve("threshold").model_dump()
    assert fields["limits"] == {"max_steps": 50, "max_seconds": None, "max_cost_usd": 2.0, "max_tokens": None}
    context = ContextState(**fields["context"])
    assert context.tokens == 0 < context.usable < context.limit


@pytest.mark.parametrize(
    ("asked", "title"),
    [
        ({"task": "one"}, "one"),
        ({"task": "\n  \n  first \nsecond"}, "first"),
        ({"task": "x" * TITLE_CHARS}, "x" * TITLE_CHARS),
        ({"task": "x" * (TITLE_CHARS + 1)}, "x" * (TITLE_CHARS - 1) + "…"),
        ({"task": "one", "title": "mine"}, "mine"),
    ],
)
async def test_a_task_s_first_line_is_the_default_title(office: Office, asked: dict[str, Any], title: str) -> None:
    assert (await office.draft(**asked)).fields["title"] == title


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"model": "nobody/x"}, "unknown_model"),
    ({"model": "openai/gpt-5"}, "missing_api_key"),
    ({"compaction": "none"}, "invalid_compaction"),
    ({"compaction": {"model": "nobody/x"}}, "unknown_model"),
    ({"approval": {"policy": {"tools": ["fly"]}}}, "unknown_tool"),
    ({"tools": ["read_file", "fly"]}, "unknown_tool"),
    ({"metadata": {"a": "x" * MAX_METADATA_BYTES}}, "metadata_too_large"),
    ({"limits": {"max_steps": 81}}, "limit_not_allowed"),
    ({"limits": {"max_cost_usd": None}}, "limit_not_allowed"),
]


@pytest.mark.parametrize(("asked", "code"), REFUSED)
async def test_unavailable_values_are_refused_at_creation_and_in_a_patch(
    office: Office, asked: dict[str, Any], code: str
) -> None:
    for ask in (office.create, office.patch):
        with pytest.raises(PalimpsestError) as caught:
            await ask(**asked)
        assert caught.value.code == code
    assert await office.stage.log() == []
    assert len(await office.stage.database.read(sessions.ids)) == 1


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"sandbox": "local-unsafe"}, "sandbox_not_allowed"),
        ({"sandbox": "docker"}, "sandbox_not_allowed"),
    ],
)
async def test_invalid_creations_are_refused(office: Office, asked: dict[str, Any], code: str) -> None:
    with pytest.raises(PalimpsestError) as caught:
        await office.draft(**asked)
    assert caught.value.code == code


async def test_the_maximum_metadata_is_accepted(office: Office) -> None:
    metadata = {"a": "x" * (MAX_METADATA_BYTES - len('{"a":""}'))}
    assert (await office.draft(metadata=metadata)).fields["metadata"] == metadata


numbers = st.none() | st.integers(1, 5)
bounds = st.builds(Limits, max_steps=numbers, max_seconds=numbers, max_cost_usd=numbers, max_tokens=numbers)
NAMES = tuple(Limits.model_fields)


@given(base=bounds, most=bounds, asked=st.dictionaries(st.sampled_from(NAMES), numbers))
def test_limits_are_the_requested_ones_within_the_bounds(
    base: Limits, most: Limits, asked: dict[str, int | None]
) -> None:
    def exceeds(value: float | None, bound: float | None) -> bool:
        return bound is not None and (value is None or value > bound)

    def limits() -> Limits:
        body = SessionCreate.model_validate({"limits": asked})
        return limits_within(body.limits, base, most)

    if any(exceeds(value, getattr(most, name)) for name, value in asked.items()):
        with pytest.raises(PalimpsestError) as caught:
            limits()
        assert caught.value.code == "limit_not_allowed"
        return
    for name, value in limits():
        wanted = asked[name] if name in asked else getattr(base, name)
        bound = getattr(most, name)
        assert value == (bound if exceeds(wanted, bound) else wanted)


# creating


async def test_a_session_without_a_task_is_idle_and_one_with_it_runs(office: Office) -> None:
    (quiet, _), (busy, is_new) = await office.create(), await office.create(task="do it", metadata={"a": 1})
    assert (quiet.status, quiet.last_seq, quiet.queue.pending) == (Status.IDLE, 1, 0)
    assert is_new
    assert (busy.status, busy.task, busy.metadata) == (Status.RUNNING, "do it", {"a": 1})
    assert (busy.last_seq, busy.queue.pending, busy.usage) == (3, 1, Usage())
    made = Stage(office.stage.database, busy.id, office.stage.path)
    created, queued, running = await made.log()
    assert [created.type, queued.type, running.type] == ["session.created", "message.queued", "session.running"]
    shown = created.data["session"]
    assert (shown["id"], shown["last_seq"], shown["status"]) == (busy.id, 1, "idle")
    assert queued.data["content"] == "do it"


async def test_a_retry_finds_the_session_and_other_content_conflicts(office: Office) -> None:
    asked: dict[str, Any] = {"id": new_id(), "task": "do it", "limits": {"max_steps": 3}, "title": "t"}
    session, _ = await office.create(**asked)
    again, is_new = await office.create(**dict(reversed(asked.items())))
    assert (again.id, again.last_seq, is_new) == (session.id, session.last_seq, False)
    others: list[dict[str, Any]] = [{"task": "other"}, {"limits": {"max_steps": 3, "max_tokens": None}}, {"tools": []}]
    for other in others:
        with pytest.raises(ConflictError) as caught:
            await office.create(**{**asked, **other})
        assert caught.value.code == "id_in_use"
    assert (await office.create(**{**asked, "id": new_id()}))[1], "another id is another session"


# patching


async def test_a_patch_sets_only_its_fields(office: Office) -> None:
    before = await office.stage.row()
    session = await office.patch(title="new", metadata={"b": 2}, tools=["read_file"])
    assert (session.title, session.metadata, session.last_seq) == ("new", {"b": 2}, 1)
    [event] = await office.stage.log()
    assert (event.type, event.data["session"]) == ("session.updated", session.model_dump(mode="json"))
    row = await office.stage.row()
    changed = {name for name in row._fields if getattr(row, name) != getattr(before, name)}
    assert changed - {"updated_at"} == {"title", "metadata", "tools", "last_seq"}


async def test_an_empty_patch_has_no_event(office: Office) -> None:
    session = await office.patch()
    assert (session.last_seq, await office.stage.log()) == (0, [])


async def test_null_resets_to_the_server_s_setting(office: Office) -> None:
    await office.patch(
        model="scripted/demo", compaction="handoff", limits={"max_steps": 2}, system_prompt="x", tools=[], title="t"
    )
    session = await office.patch(
        model=None, compaction=None, limits=None, system_prompt=None, tools=None, title=None, metadata=None
    )
    assert (session.model, session.compaction.policy) == ("scripted/demo", "threshold")
    assert (session.limits.max_steps, session.limits.max_cost_usd) == (50, 2.0)
    row = await office.stage.row()
    assert (row.system_prompt, row.tools, row.title, row.metadata) == (None, None, None, {})


async def test_limits_are_changed_one_by_one(office: Office) -> None:
    await office.patch(limits={"max_steps": 2, "max_tokens": 9})
    session = await office.patch(limits={"max_tokens": None, "max_seconds": 3})
    assert session.limits == Limits(max_steps=2, max_seconds=3, max_tokens=None, max_cost_usd=2.0)


async def test_compaction_settings_are_changed_one_by_one(office: Office) -> None:
    await office.patch(compaction={"policy": "handoff", "summary_max_tokens": 777})
    session = await office.patch(compaction={"prune_minimum": 5})
    assert session.compaction.policy == "handoff"
    own = resolve({"policy": "handoff", "summary_max_tokens": 777, "prune_minimum": 5})
    assert session.compaction.settings == public(own)
    session = await office.patch(compaction="threshold")
    assert session.compaction.settings == public(
        own.model_copy(update={**PRESETS["threshold"], "summary_max_tokens": 777})
    )


async def test_a_removed_summarizer_does_not_block_other_changes(office: Office) -> None:
    gone = resolve({"policy": "handoff", "model": "nobody/x"})
    await office.stage.change(compaction=gone.model_dump(mode="json"))
    settings = (await office.patch(compaction={"prune_minimum": 5})).compaction.settings
    assert (settings["model"], settings["prune_minimum"]) == ("nobody/x", 5)


# cancel and resume


@pytest.mark.parametrize("clear_queue", [False, True])
async def test_a_cancel_is_stored_and_holds_or_withdraws_pending_messages(stage: Stage, clear_queue: bool) -> None:
    ids = [await stage.post("one"), await stage.post("two", QueueMode.FOLLOW_UP)]
    before = (await stage.row()).last_seq
    session = await stage.act(lambda c: lifecycle.cancel(c, stage.session_id, clear_queue=clear_queue))
    news = await stage.log(before)
    assert [event.type for event in news] == ["message.withdrawn"] * (2 if clear_queue else 0)
    assert [event.data["message_id"] for event in news] == (ids if clear_queue else [])
    assert (session.status, session.queue.pending) == (Status.RUNNING, 0 if clear_queue else 2)
    row = await stage.row()
    assert (row.cancel_requested, row.queue_held) == (True, True)


async def test_a_cancel_of_an_idle_session_is_not_kept_for_its_next_run(stage: Stage) -> None:
    session = await stage.act(lambda c: lifecycle.cancel(c, stage.session_id, clear_queue=False))
    row = await stage.row()
    assert (session.status, row.cancel_requested, row.queue_held) == (Status.IDLE, False, False)
    assert await stage.log() == []


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.CANCELLED, Outcome.INTERRUPTED, Outcome.LIMIT_REACHED])
async def test_a_resume_starts_a_run_and_tells_the_model(stage: Stage, outcome: Outcome) -> None:
    await stage.change(outcome=outcome, error={"code": "x"}, queue_held=True)
    session = await stage.act(lambda c: lifecycle.resume(c, stage.session_id))
    assert (session.status, session.outcome, session.error) == (Status.RUNNING, None, None)
    running, created = await stage.log()
    assert (running.seq, running.type, running.data["trigger"]) == (1, "session.running", "resume")
    [message] = await stage.history()
    assert (created.seq, created.data["message"]["id"], message.role) == (message.seq, message.id, "control")
    assert ("limit" in message.text) is (outcome is Outcome.LIMIT_REACHED)
    assert not (await stage.row()).queue_held


@pytest.mark.parametrize("given", [None, "00-of-the-resume"])
async def test_a_resume_keeps_the_trace_of_the_work_unless_it_has_one(stage: Stage, given: str | None) -> None:
    await stage.change(status=Status.IDLE, outcome=Outcome.CANCELLED, run_traceparent="00-of-the-work")
    starter = runs.Starter(traceparent=given)
    await stage.act(lambda c: lifecycle.resume(c, stage.session_id, starter))
    assert (await stage.row()).run_traceparent == (given or "00-of-the-work")


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"status": Status.RUNNING, "outcome": Outcome.FAILED}, "session_running"),
        ({"outcome": None}, "nothing_to_resume"),
        ({"outcome": Outcome.COMPLETED}, "nothing_to_resume"),
    ],
)
async def test_nothing_to_resume_is_an_error(stage: Stage, fields: dict[str, Any], code: str) -> None:
    await stage.change(**fields)
    with pytest.raises(ConflictError) as caught:
        await stage.act(lambda c: lifecycle.resume(c, stage.session_id))
    assert caught.value.code == code
    assert (await stage.log(), await stage.history()) == ([], [])


USED = Usage(input_tokens=1_200_000, output_tokens=34_567, cost_usd=0.3)


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.CANCELLED, Outcome.INTERRUPTED, Outcome.LIMIT_REACHED])
@pytest.mark.parametrize(
    ("limits", "code", "used"),
    [
        (Limits(max_tokens=1_234_567), "max_tokens", "1,234,567 of 1,234,567 tokens"),
        (Limits(max_cost_usd=0.3), "max_cost_usd", "0.3 of 0.3 US dollars"),
        (Limits(max_cost_usd=0.1), "max_cost_usd", "0.3 of 0.1 US dollars"),
        (Limits(max_tokens=5, max_cost_usd=0.1), "max_tokens", "1,234,567 of 5 tokens"),
    ],
)
async def test_a_session_at_its_limit_is_not_resumed(
    stage: Stage, outcome: Outcome, limits: Limits, code: str, used: str
) -> None:
    await stage.change(outcome=outcome, usage=USED.model_dump(), limits=limits.model_dump(), queue_held=True)
    with pytest.raises(ConflictError) as caught:
        await stage.act(lambda c: lifecycle.resume(c, stage.session_id))
    assert (caught.value.code, caught.value.extra["limit"]) == (code, getattr(limits, code))
    assert used in caught.value.detail
    assert (await stage.log(), (await stage.row()).queue_held) == ([], True)


@pytest.mark.parametrize(
    "limits", [Limits(max_tokens=1_234_568, max_cost_usd=0.31), Limits(max_steps=1, max_seconds=0.1)]
)
async def test_a_raised_limit_or_a_limit_per_run_allows_a_resume(stage: Stage, limits: Limits) -> None:
    fields = {"run_steps": 9, "usage": USED.model_dump(), "limits": limits.model_dump()}
    await stage.change(outcome=Outcome.LIMIT_REACHED, **fields)
    session = await stage.act(lambda c: lifecycle.resume(c, stage.session_id))
    assert session.status == Status.RUNNING
