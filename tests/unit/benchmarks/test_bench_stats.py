"""The benchmarks' arithmetic and its table."""

from __future__ import annotations

import json
import random
import time

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.__main__ import FULL, QUICK, parse
from benchmarks.processes import TICKS_PER_S, cpu_seconds, resident
from benchmarks.report import HEADINGS, Result, as_json, cells, machine, notes, table
from benchmarks.source import STAMP, STAMP_RANGE, age_ms, chunk, stamp
from benchmarks.stats import gaps, percentile, quiet_mean, spread

numbers = st.lists(st.floats(0, 1e6), min_size=1, max_size=200)


@given(numbers, st.floats(0, 1))
def test_a_percentile_is_a_value_that_the_share_does_not_exceed(values: list[float], share: float) -> None:
    found = percentile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values)
    assert sum(value < found for value in values) <= share * len(values)


@given(st.lists(st.integers(0, 1_000), min_size=1, max_size=50), st.randoms(use_true_random=False))
def test_noise_that_spares_each_step_once_is_filtered_out(steps: list[int], rng: random.Random) -> None:
    """Even if some steps take much longer than others."""
    spared = [rng.randrange(5) for _ in steps]
    rounds = [
        [step + (0 if quiet == number else rng.randint(0, 10_000)) for step, quiet in zip(steps, spared, strict=True)]
        for number in range(5)
    ]
    assert quiet_mean(rounds) == pytest.approx(sum(steps) / len(steps))


@pytest.mark.parametrize("rounds", [[], [[]], [[1.0], [1.0, 2.0]]])
def test_a_mean_of_no_rounds_or_different_steps_is_refused(rounds: list[list[float]]) -> None:
    with pytest.raises(ValueError, match=r"mean of|shorter|longer"):
        quiet_mean(rounds)


def test_percentiles_of_a_hundred() -> None:
    values = [float(number) for number in range(100, 0, -1)]
    assert [percentile(values, share) for share in (0, 0.5, 0.99, 1)] == [1, 50, 99, 100]


def test_a_percentile_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


def test_the_spread_is_a_share_of_the_median() -> None:
    assert spread([2.0, 1.0, 4.0]) == 1.5
    assert spread([0.0]) == 0.0


def test_gaps_are_between_the_end_of_a_call_and_the_start_of_the_next() -> None:
    assert gaps([(0, 1), (3, 4), (9, 10)]) == [2, 5]
    assert gaps([(0, 1)]) == []


def test_a_goal_for_a_value_and_a_goal_for_a_ratio() -> None:
    value = Result("latency", 1.5, "ms", 2, against=1.0, against_what="floor")
    assert (value.judged, value.met, value.ratio) == (1.5, True, 1.5)
    ratio = Result("cpu", 150, "µs", 1.0, against=100, against_what="floor", goal_is_ratio=True)
    assert (ratio.judged, ratio.met) == (1.5, False)
    assert Result("met to the letter", 2.0, "ms", 2).met


def test_a_ratio_of_rounds_wins_over_the_ratio_of_medians() -> None:
    result = Result("cpu", 150, "µs", 1.0, against=100, goal_is_ratio=True, paired_ratio=0.9)
    assert result.ratio == result.judged == 0.9
    assert result.met


def test_the_table_is_aligned_and_shows_missed_goals() -> None:
    results = [
        Result("short", 0.123456, "ms", 2, spread=0.25),
        Result("a longer name", 245.6, "µs", 1, against=100, against_what="floor", goal_is_ratio=True, note="why"),
    ]
    lines = table(results).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert [cell.strip() for cell in lines[0].strip("|").split("|")] == list(HEADINGS)
    assert cells(results[0]) == ("short", "0.123 ms", "≤ 2 ms", "", "", "25%", "yes")
    assert cells(results[1]) == ("a longer name", "246 µs", "≤ 1×", "floor 100 µs", "2.46×", "", "NO")
    assert notes(results) == "- a longer name: why"


def test_the_json_report_has_every_number() -> None:
    document = json.loads(json.dumps(as_json([Result("rest", 80, "MiB", 120)], machine())))
    (row,) = document["results"]
    assert (row["what"], row["value"], row["goal"], row["met"], row["ratio"]) == ("rest", 80, 120, True, None)
    assert document["machine"]["cores"] >= 1
    assert document["machine"]["memory_gib"] > 0


def test_processor_time_is_read_past_an_odd_process_name() -> None:
    fields = ["S", *["0"] * 10, "300", "200", "7"]
    assert cpu_seconds(f"12 (odd ) name) {' '.join(fields)}") == 500 / TICKS_PER_S


def test_resident_memory_is_read_in_bytes() -> None:
    assert resident("Name:\tx\nVmHWM:\t  99 kB\nVmRSS:\t  64 kB\n") == 65536


def test_a_stamp_has_an_age() -> None:
    before = time.monotonic()
    (digits,) = STAMP.findall(f"some {stamp()} text".encode())
    age = age_ms(digits, time.monotonic())
    assert 0 <= age <= (time.monotonic() - before) * 1000 + 0.01


@given(st.integers(0, STAMP_RANGE - 1), st.floats(0, 1e6))
def test_an_age_is_right_when_stamps_wrap_around(sent: int, waited_ms: float) -> None:
    now = (sent + 3 * STAMP_RANGE) / 1e6 + waited_ms / 1000
    assert age_ms(f"{sent:08x}".encode(), now) == pytest.approx(waited_ms, abs=0.01)


def test_the_source_sends_chat_completions() -> None:
    data = chunk({"content": "~0123abcd"}, "stop")
    assert data.startswith(b"data: ")
    assert data.endswith(b"\n\n")
    document = orjson.loads(data[6:])
    assert document["object"] == "chat.completion.chunk"
    assert document["choices"][0]["delta"] == {"content": "~0123abcd"}


def test_options() -> None:
    assert list(FULL) == list(QUICK)
    options = parse(["cpu", "memory", "--quick", "--json"])
    assert (options.rows, options.quick, options.json, options.strict) == (["cpu", "memory"], True, True, False)
    assert parse([]).rows == []


def test_an_unknown_row_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["speed"])
    assert "unknown row speed" in capsys.readouterr().err
