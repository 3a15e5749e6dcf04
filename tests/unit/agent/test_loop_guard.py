"""Which histories count as a loop."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from app.agent.limits import NO_GUARD, GuardRules, LoopGuard, Verdict
from app.context.prompts import control_text
from app.messages import Message
from tests.unit.context import builders as b


class History(list[Message]):
    """Grows by steps, each with one or more calls given as (arguments, output)."""

    def step(self, *calls: tuple[str, str], **fields: object) -> History:
        seq = len(self) + 1
        ids = [f"c{seq}.{place}" for place in range(len(calls))]
        asked = [b.call(call_id, arguments=arguments) for call_id, (arguments, _) in zip(ids, calls, strict=True)]
        got = [b.result(call_id, output) for call_id, (_, output) in zip(ids, calls, strict=True)]
        self.append(b.assistant(seq, b.text(f"step {seq}"), *asked, **fields))
        self.append(b.tool(seq + 1, *got))
        return self

    def steps(self, pattern: str, count: int) -> History:
        """Adds a step for each letter of the pattern, `count` times."""
        for letter in pattern * count:
            self.step((f'{{"do": "{letter}"}}', "the same"))
        return self

    def says(self, text: str) -> History:
        self.append(b.control(len(self) + 1, text))
        return self


def verdict(history: list[Message], rules: GuardRules | None = None) -> Verdict:
    return LoopGuard(rules or GuardRules()).look(history)


TOLD = control_text("loop_guard")


@pytest.mark.parametrize(("pattern", "fine", "told"), [("a", 2, 3), ("ab", 2, 3), ("abc", 2, 3), ("abcd", 9, None)])
def test_a_cycle_of_up_to_three_steps_is_detected(pattern: str, fine: int, told: int | None) -> None:
    assert verdict(History().steps(pattern, fine)) is Verdict.FINE
    if told is not None:
        assert verdict(History().steps("x", 1).steps(pattern, told)) is Verdict.TELL


def test_the_model_is_warned_once_and_then_the_run_ends() -> None:
    guard, history = LoopGuard(GuardRules()), History().steps("a", 3)
    assert guard.look(history) is Verdict.TELL
    history.says(TOLD)
    seen = []
    for _ in range(3):
        seen.append(guard.look(history))
        history.steps("a", 1)
    assert [*seen, guard.look(history)] == [Verdict.FINE] * 3 + [Verdict.END]
    assert verdict(history) is Verdict.END, "a look at the whole history gives the same"


def test_different_steps_are_no_cycle() -> None:
    outputs = History()
    arguments = History()
    for number in range(9):
        outputs.step(("{}", f"line {number}"))
        arguments.step((f'{{"n": {number}}}', "same"))
    assert (verdict(outputs), verdict(arguments)) == (Verdict.FINE, Verdict.FINE)


def test_order_blanks_and_call_ids_do_not_matter() -> None:
    history = History()
    for number in range(3):
        calls = [('{"a": 1, "b": 2}', f'head [recall("c{len(history) + 1}.0")] tail'), ("{}", "other")]
        if number == 1:
            calls[0] = ('{"b":2,"a":1}', calls[0][1])
        history.step(*calls)
    assert verdict(history) is Verdict.TELL


def test_parallel_calls_must_all_be_the_same() -> None:
    moving, still = History(), History()
    for number in range(6):
        moving.step(("{}", "same"), (f'{{"n": {number}}}', "same"))
        still.step(*[("{}", "same")] * (1 + number % 2))
    assert verdict(moving) is Verdict.FINE
    assert verdict(still) is Verdict.END, "the number of calls in a message makes no difference"


@pytest.mark.parametrize("word", ["user", "resume", "limit"])
def test_a_new_message_resets_the_count(word: str) -> None:
    history = History().steps("a", 2)
    history.append(b.user(5) if word == "user" else b.control(5, control_text(word)))  # type: ignore[arg-type]
    assert verdict(history.steps("a", 2)) is Verdict.FINE


def test_a_restart_a_summary_and_voided_attempts_do_not() -> None:
    history = History().steps("a", 1).says(control_text("interrupted"))
    history.append(b.summary_of(1, 4))
    history.steps("a", 1)
    history.append(b.assistant(7, b.text("void"), voided_at=datetime(2026, 1, 1, tzinfo=UTC)))
    assert verdict(history.steps("a", 1)) is Verdict.TELL


def test_calls_of_a_last_step_change_nothing() -> None:
    history = History().steps("a", 3).says(TOLD).steps("a", 3).says(control_text("last_step"))
    history.step(("{}", "[not run]"))
    assert verdict(history) is Verdict.END


def test_the_numbers_are_settings() -> None:
    assert verdict(History().steps("a", 50), NO_GUARD) is Verdict.FINE
    assert verdict(History().steps("a", 2), GuardRules(2, 1)) is Verdict.TELL
    assert verdict(History().steps("a", 3), GuardRules(2, 1)) is Verdict.END
    assert verdict(History().steps("a", 50).says(TOLD), GuardRules(2, 0)) is Verdict.FINE


@pytest.mark.parametrize(("ms", "expected"), [(10_000, Verdict.FINE), (9_999, Verdict.END)])
def test_waiting_for_a_silent_command_is_no_loop(ms: int, expected: Verdict) -> None:
    history = History()
    for number in range(1, 20, 2):
        history.append(b.assistant(number, b.call(f"c{number}", name="command_output", arguments='{"wait_s": 300}')))
        looked = b.result(f"c{number}", "[running; since=0 reads on]", name="command_output", duration_ms=ms)
        history.append(b.tool(number + 1, looked))
    assert verdict(history) is expected
