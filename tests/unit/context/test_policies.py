from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from app.context.policies import DEFAULT, POLICIES, CompactionSettings, given_settings, preset, public, resolve
from app.errors import InvalidRequestError

DOCUMENTED = {
    "model", "threshold_percent", "system_reserve", "safety_buffer", "recent_messages_to_keep", "prune_protect",
    "prune_minimum", "prune_exempt_tools", "min_turns_to_keep", "output_reserve", "tail_tokens", "handoff_threshold",
    "summary_max_tokens", "summary_temperature", "clip_chars", "profile", "background", "recount_probe",
    "auto", "prune_at_end", "clear_first",
}  # fmt: skip

some_settings = st.fixed_dictionaries(
    {},
    optional={
        "model": st.sampled_from(["openai/gpt-5-mini", None]),
        "threshold_percent": st.sampled_from([0.25, 0.5, 0.8]),
        "safety_buffer": st.none() | st.integers(0, 10_000),
        "output_reserve": st.none() | st.integers(1, 10_000),
        "summary_max_tokens": st.none() | st.integers(1, 5_000),
        "summary_temperature": st.none() | st.sampled_from([0.0, 0.3, 1.0]),
        "prune_exempt_tools": st.lists(st.sampled_from(["recall", "read_file"]), max_size=2),
        "profile": st.sampled_from(["coding", "content"]),
        "background": st.booleans(),
    },
)


def test_every_documented_setting_exists_and_no_other() -> None:
    assert set(public(DEFAULT)) == DOCUMENTED


def test_every_setting_has_a_description() -> None:
    assert all(field.description for field in CompactionSettings.model_fields.values())


def test_the_default_is_reactive() -> None:
    assert resolve(None) == DEFAULT == preset("reactive")
    shown = public(DEFAULT)
    assert (shown["prune_protect"], shown["prune_minimum"], shown["min_turns_to_keep"]) == (None, None, 2)
    assert (shown["output_reserve"], shown["safety_buffer"], shown["tail_tokens"]) == (None, None, None)
    assert (shown["summary_max_tokens"], shown["summary_temperature"], shown["clip_chars"]) == (2_000, None, 30_000)
    assert shown["prune_exempt_tools"] == ["recall", "memory_read", "update_plan"]
    assert DEFAULT.per_message == 4


def test_the_seeds_reactive_clears_first() -> None:
    seed = resolve("seed-reactive")
    assert (seed.policy, seed.clear_first, resolve("reactive").clear_first) == ("reactive", True, False)
    assert resolve({"policy": "seed-reactive", "tail_tokens": 5}).tail_tokens == 5
    assert resolve({"policy": "seed-reactive", "clear_first": False}).clear_first is False
    assert resolve({"tail_tokens": 5}, seed).clear_first


@pytest.mark.parametrize("name", ["prune_protect", "prune_minimum"])
def test_what_to_clear_asks_for_clearing(name: str) -> None:
    assert resolve({name: 0}).clear_first
    assert not resolve({name: None}).clear_first
    assert not resolve({name: 5, "clear_first": False}).clear_first
    assert not resolve({"policy": "threshold", name: 5}).clear_first


def test_threshold_has_the_numbers_of_its_design() -> None:
    settings = resolve("threshold")
    assert settings.threshold_percent == 0.8
    assert (settings.system_reserve, settings.output_reserve, settings.safety_buffer) == (2_000, 4_000, 5_000)
    assert (settings.recent_messages_to_keep, settings.per_message) == (10, 2)
    assert (settings.summary_max_tokens, settings.summary_temperature) == (1_000, 0.3)


def test_handoff_has_the_numbers_of_its_design() -> None:
    settings = resolve("handoff")
    assert settings.handoff_threshold == 200_000
    assert settings.summary_max_tokens is None
    assert settings.safety_buffer is None


def test_a_request_changes_what_it_names() -> None:
    settings = resolve({"policy": "threshold", "recent_messages_to_keep": 4, "model": "openai/gpt-5-mini"})
    given = {"recent_messages_to_keep": 4, "model": "openai/gpt-5-mini"}
    assert public(settings) == public(preset("threshold").model_copy(update=given))


def test_a_request_without_a_policy_keeps_the_current_one() -> None:
    base = resolve({"policy": "threshold", "clip_chars": 500})
    settings = resolve({"safety_buffer": 100}, base)
    assert (settings.policy, settings.clip_chars, settings.safety_buffer) == ("threshold", 500, 100)
    assert settings.output_reserve == 4_000


def test_the_servers_own_settings_survive_a_change_of_policy_and_its_preset_does_not() -> None:
    base = resolve({"policy": "threshold", "clip_chars": 500, "model": "openai/gpt-5-mini"})
    settings = resolve("handoff", base)
    given = {"clip_chars": 500, "model": "openai/gpt-5-mini"}
    assert public(settings) == public(preset("handoff").model_copy(update=given))
    assert given_settings(settings) == given


@pytest.mark.parametrize("stored", [True, False])
def test_a_given_value_stays_given_even_if_it_is_the_usual_one(stored: bool) -> None:
    base = resolve({"policy": "threshold", "recent_messages_to_keep": 10, "summary_max_tokens": 1_000})
    if stored:
        base = CompactionSettings(**orjson.loads(orjson.dumps(base.model_dump())))
    settings = resolve("handoff", base)
    assert given_settings(settings) == {"recent_messages_to_keep": 10, "summary_max_tokens": 1_000}
    assert resolve("threshold", settings) == base


def test_settings_stored_without_what_was_given_count_by_their_values() -> None:
    old = preset("threshold").model_copy(update={"clip_chars": 500, "given": None})
    assert given_settings(old) == {"clip_chars": 500}
    assert resolve("handoff", old).clip_chars == 500


def test_null_resets_a_setting_to_the_windows_value() -> None:
    assert resolve({"policy": "threshold", "output_reserve": None}).output_reserve is None


@pytest.mark.parametrize(("asked", "share"), [(0.5, 0.5), (50, 0.5), (1, 1.0), (100, 1.0), (80, 0.8)])
def test_the_threshold_may_be_a_share_or_a_percentage(asked: float, share: float) -> None:
    assert resolve({"threshold_percent": asked}).threshold_percent == share


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ("keen", "compaction.policy"),
        ("", "compaction.policy"),
        ({"policy": None}, "compaction.policy"),
        ({"policy": ["reactive"]}, "compaction.policy"),
        ({"policy": "reactive", "nonsense": 1}, "compaction.nonsense"),
        ({"given": ["clip_chars"]}, "compaction.given"),
        ({"threshold_percent": 0}, "compaction.threshold_percent"),
        ({"threshold_percent": 101}, "compaction.threshold_percent"),
        ({"threshold_percent": True}, "compaction.threshold_percent"),
        ({"threshold_percent": float("nan")}, "compaction.threshold_percent"),
        ({"safety_buffer": -1}, "compaction.safety_buffer"),
        ({"output_reserve": 0}, "compaction.output_reserve"),
        ({"handoff_threshold": 10**30}, "compaction.handoff_threshold"),
        ({"recent_messages_to_keep": 0}, "compaction.recent_messages_to_keep"),
        ({"clip_chars": "many"}, "compaction.clip_chars"),
        ({"profile": "poems"}, "compaction.profile"),
        ({"model": ""}, "compaction.model"),
        ({"prune_exempt_tools": ["recall", 5]}, "compaction.prune_exempt_tools.1"),
        ([], "compaction"),
        (7, "compaction"),
    ],
)
def test_invalid_values_are_refused_and_named(value: Any, field: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        resolve(value)
    problem = caught.value.problem()
    assert (problem["status"], problem["code"], problem["field"]) == (422, "invalid_compaction", field)
    assert problem["detail"].startswith(field)


def test_all_errors_are_named_at_once() -> None:
    wrong = {"policy": "keen", "nonsense": 1, "clip_chars": "many", "prune_exempt_tools": ["recall", 5], "model": "m"}
    with pytest.raises(InvalidRequestError) as caught:
        resolve(wrong)
    problem = caught.value.problem()
    fields = ["policy", "prune_exempt_tools.1", "clip_chars", "nonsense"]
    assert [error["field"] for error in problem["errors"]] == [f"compaction.{name}" for name in fields]
    assert problem["field"] == "compaction.policy"
    assert problem["detail"] == "; ".join(f"{error['field']}: {error['message']}" for error in problem["errors"])
    assert problem["errors"][-1]["message"] == "Unknown setting"


def test_a_refusal_has_a_bounded_size() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        resolve({str(number) * 300: 1 for number in range(500)})
    errors = caught.value.problem()["errors"]
    assert len(errors) == 20
    assert all(len(error["field"]) == 200 for error in errors)


def test_the_refusal_of_a_name_lists_the_policies() -> None:
    with pytest.raises(InvalidRequestError, match="reactive, threshold, handoff"):
        resolve("magic")


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError):
        DEFAULT.clip_chars = 5  # type: ignore[misc]


@given(st.sampled_from(POLICIES), some_settings)
def test_public_settings_can_be_requested_again(policy: str, changes: dict[str, Any]) -> None:
    settings = resolve({"policy": policy, **changes})
    shown = orjson.loads(orjson.dumps(public(settings)))
    assert public(resolve({"policy": policy, **shown})) == shown


@given(st.sampled_from(POLICIES), some_settings, st.sampled_from(POLICIES), some_settings)
def test_a_request_wins_over_the_server(first: str, base: dict[str, Any], second: str, changes: dict[str, Any]) -> None:
    settings = resolve({"policy": second, **changes}, resolve({"policy": first, **base}))
    assert settings.policy == second
    assert all(public(settings)[name] == value for name, value in changes.items())


@given(st.sampled_from(POLICIES), some_settings)
def test_merging_nothing_changes_nothing(policy: str, changes: dict[str, Any]) -> None:
    settings = resolve({"policy": policy, **changes})
    assert resolve(None, settings) is settings
    assert resolve({}, settings) == settings
    assert resolve(policy, settings) == settings
