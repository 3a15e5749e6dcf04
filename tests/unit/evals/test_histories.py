"""Recorded histories: the packaged ones, and the requirements on a file."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from app.context.tokens import PER_MESSAGE, estimate_part
from app.messages import Role, ToolStatus
from evals import KINDS, InvalidHistoryError, RecordedHistory, load_packaged, packaged_names, read_history
from evals.histories import parse_history, plan_of, texts_of
from evals.scoring import found, states

from .stage import history, messages, probe

PACKAGED = packaged_names()


def document(**changes: Any) -> dict[str, Any]:
    made = {"name": "mine", "format": "openai", "messages": messages(2), "probes": [probe().model_dump()]}
    return {**made, **changes}


def parsed(**changes: Any) -> RecordedHistory:
    return parse_history(orjson.dumps(document(**changes)), "mine.json")


def test_there_are_histories_of_varied_work() -> None:
    assert len(PACKAGED) >= 6
    assert all(load_packaged(name).about for name in PACKAGED)


@pytest.mark.parametrize("name", PACKAGED)
def test_a_packaged_history_asks_every_kind_of_question_and_contains_the_answers(name: str) -> None:
    recorded = load_packaged(name)
    assert recorded.name == name
    assert {item.kind for item in recorded.probes} == set(KINDS)
    said = "\n".join(text for message in recorded.conversation() for text in texts_of(message))
    facts = [(item.question, fact) for item in recorded.probes for fact in item.facts]
    for (question, fact), is_said in zip(facts, found(said, [fact for _, fact in facts]), strict=True):
        assert is_said, fact
        assert not states(question, fact), fact


@pytest.mark.parametrize("name", PACKAGED)
def test_a_packaged_history_is_a_real_session_in_the_middle_of_its_work(name: str) -> None:
    conversation = load_packaged(name).conversation()
    assert [message.seq for message in conversation] == list(range(1, len(conversation) + 1))
    calls = [call.call_id for message in conversation for call in message.tool_calls]
    results = [result.call_id for message in conversation for result in message.tool_results]
    assert calls == results
    assert len(set(calls)) == len(calls) >= 15
    assert conversation[0].role is Role.USER
    assert conversation[-1].role is Role.TOOL
    for message in conversation:
        assert message.tokens == PER_MESSAGE + sum(estimate_part(part) for part in message.parts)


def test_together_they_have_what_real_sessions_have() -> None:
    conversations = {name: load_packaged(name).conversation() for name in PACKAGED}
    every = [message for conversation in conversations.values() for message in conversation]
    assert max(len(message.tool_calls) for message in every) >= 5
    assert any(part.truncated for message in every for part in message.tool_results)
    assert any(part.exit_code for message in every for part in message.tool_results)
    assert any(part.status is ToolStatus.ERROR or part.exit_code for message in every for part in message.tool_results)
    users = [sum(m.role is Role.USER for m in conversation) for conversation in conversations.values()]
    assert max(users) >= 4
    tokens = [sum(m.tokens for m in conversation) for conversation in conversations.values()]
    assert max(tokens) > 10 * min(tokens)
    assert any(ord(char) > 0x3000 for message in every for char in message.text)


@pytest.mark.parametrize("name", PACKAGED)
def test_the_plan_is_the_last_one_that_was_set(name: str) -> None:
    plan = plan_of(load_packaged(name).conversation())
    assert [item.status for item in plan][-1] == "in_progress"


def test_a_conversation_without_a_plan_has_none() -> None:
    assert plan_of(history(steps=1).conversation()[:1]) == []


def test_an_invalid_plan_is_skipped() -> None:
    conversation = history(steps=3).conversation()
    assert [item.text for item in plan_of(conversation)] == ["Write omega.txt"]


def test_a_file_may_be_compressed_or_not(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.json", tmp_path / "b.json.gz"
    plain.write_bytes(orjson.dumps(document()))
    packed.write_bytes(gzip.compress(orjson.dumps(document())))
    assert read_history(str(plain)) == read_history(str(packed))


def test_the_documented_format_is_valid() -> None:
    page = Path(__file__).resolve().parents[3] / "docs" / "evaluation.md"
    (example,) = re.findall(r"^```json\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    assert parse_history(example.encode(), "docs").name == "my-session"


def test_a_packaged_name_loads_its_history() -> None:
    assert read_history("long_log") == load_packaged("long_log")


def test_an_export_of_either_provider_can_be_replayed() -> None:
    anthropic = [{"role": "user", "content": "Write alpha.sh."}, {"role": "assistant", "content": "Yes."}]
    assert [m.role for m in parsed(format="anthropic", messages=anthropic).conversation()] == [
        Role.USER,
        Role.ASSISTANT,
    ]
    assert len(parsed().conversation()) == 5


def test_messages_from_the_api_come_back_unchanged() -> None:
    conversation = load_packaged("parallel_calls").conversation()
    stored = [orjson.loads(message.model_dump_json()) for message in conversation]
    again = parsed(format="palimpsest", messages=stored, probes=[probe("Which?", "warehouse").model_dump()])
    assert again.conversation() == conversation


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"probes": []}, "probes: "),
        ({"messages": []}, "messages: "),
        ({"name": "Not A Name"}, "name: "),
        ({"extra": 1}, "extra: "),
        ({"messages": [{"role": "nobody"}]}, "role should be one of"),
        ({"format": "palimpsest", "messages": [{"role": "user"}]}, "does not have the format 'palimpsest'"),
        ({"format": "palimpsest", "messages": ["text"]}, "does not have the format 'palimpsest'"),
        ({"format": "palimpsest", "messages": [{"parts": [{"type": "tool_call"}]}]}, "does not have the format"),
        ({"messages": [{"role": "assistant", "content": "alpha.sh"}]}, "it has no user message"),
        ({"probes": [probe("Is it alpha.sh?", "alpha.sh").model_dump()]}, "contains its answer 'alpha.sh'"),
        ({"probes": [probe("Which file?", "beta.sh").model_dump()]}, "'beta.sh' does not occur in the history"),
    ],
)
def test_a_history_that_measures_nothing_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidHistoryError) as raised:
        parsed(**changes)
    assert says in raised.value.detail


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"\x1f\x8bnonsense", gzip.compress(b"[1"), gzip.compress(b"{}")[:-9]],
    ids=["empty", "half", "packed nonsense", "packed half", "half packed"],
)
def test_invalid_json_is_reported(data: bytes) -> None:
    with pytest.raises(InvalidHistoryError, match="neither JSON"):
        parse_history(data, "x")


def test_a_missing_file_lists_the_packaged_histories(tmp_path: Path) -> None:
    with pytest.raises(InvalidHistoryError, match="changes_of_mind"):
        read_history(str(tmp_path / "nowhere.json"))
    with pytest.raises(InvalidHistoryError, match="Unknown recorded history"):
        load_packaged("nowhere")


def test_a_history_that_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evals.histories.MAX_BYTES", 1_000)
    with pytest.raises(InvalidHistoryError):
        parse_history(gzip.compress(b" " * 2_000), "bomb")
