"""The measurement of many sessions: reading, counting and reporting."""

from __future__ import annotations

import json
import math
import re

import pytest

from benchmarks.crowd import Crowd, DeltaReader
from benchmarks.observation import Figure, Observation, figures, memory_figures
from benchmarks.report import machine
from benchmarks.scale import as_json, bounds, parse, table
from benchmarks.scrape import at_most, between, histogram, total
from benchmarks.source import stamp

METRICS = """\
# HELP palimpsest_steps_total Steps that ended.
# TYPE palimpsest_steps_total counter
palimpsest_steps_total{finish_reason="stop"} 3.0
palimpsest_steps_total{finish_reason="tool_calls"} 1.2e+03
palimpsest_steps_created{finish_reason="stop"} 1.7e+09
palimpsest_tasks 12.0
lag_bucket{le="0.001"} 6.0
lag_bucket{le="0.005"} 9.0
lag_bucket{le="+Inf"} 10.0
lag_count 10.0
"""


def delta(*stamps: str) -> bytes:
    return b'event: text.delta\ndata: {"offset": 0, "text": "%b"}\n\n' % "".join(stamps).encode()


def closed(*stamps: str) -> bytes:
    """The durable event with the whole text."""
    return b'id: 7\nevent: part.closed\ndata: {"text": "%b"}\n\n' % "".join(stamps).encode()


def chunked(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(body), body)


def reader_with(*chunks: bytes) -> DeltaReader:
    reader = DeltaReader(b"", 0)
    for chunk in chunks:
        reader.data_received(chunk)
    return reader


def test_a_metric_is_summed_over_its_labels() -> None:
    assert total(METRICS, "palimpsest_steps_total") == 1203
    assert total(METRICS, "palimpsest_tasks") == 12
    assert total(METRICS, "palimpsest_steps") == 0


def test_a_histogram_is_read_by_its_bucket_boundaries() -> None:
    assert histogram(METRICS, "lag") == {0.001: 6, 0.005: 9, math.inf: 10}


def test_a_percentile_of_a_histogram_is_the_next_bucket_boundary() -> None:
    lag = histogram(METRICS, "lag")
    assert [at_most(lag, share) for share in (0, 0.6, 0.61, 0.9, 0.99)] == [0.001, 0.001, 0.005, 0.005, math.inf]


def test_only_the_difference_of_two_scrapes_counts() -> None:
    before, after = {0.001: 6.0, 0.005: 9.0, math.inf: 10.0}, {0.001: 6.0, 0.005: 109.0, math.inf: 110.0}
    assert between(before, after) == {0.001: 0, 0.005: 100, math.inf: 100}
    assert at_most(between(before, after), 0.01) == 0.005


def test_a_percentile_of_an_empty_histogram_is_an_error() -> None:
    with pytest.raises(ValueError, match="no values"):
        at_most({0.001: 0.0, math.inf: 0.0}, 0.5)


def test_a_reader_counts_each_token_of_live_texts_once() -> None:
    stream = chunked(delta(stamp())) + chunked(delta(stamp(), stamp()) + closed(stamp(), stamp(), stamp()))
    reader = reader_with(b"HTTP/1.1 200 OK\r\n\r\n", stream, chunked(delta(stamp())))
    assert (len(reader.ages_ms), reader.deltas, reader.largest) == (4, 3, 2)


def test_it_does_not_matter_where_the_stream_is_cut() -> None:
    stream = chunked(delta(stamp(), stamp())) + chunked(closed(stamp())) + chunked(delta(stamp()))
    reader = reader_with(*(stream[place : place + 1] for place in range(len(stream))))
    assert (len(reader.ages_ms), reader.deltas) == (3, 2)


def test_tokens_before_the_measurement_are_ignored() -> None:
    reader = reader_with(delta(stamp(), stamp()))
    reader.begin()
    reader.data_received(delta(stamp()))
    assert (len(reader.ages_ms), reader.deltas, reader.largest) == (1, 1, 1)


def test_the_figures_of_a_measurement() -> None:
    keeps_up, falls_behind = reader_with(delta(stamp()), delta(stamp())), reader_with(delta(stamp(), stamp()))
    keeps_up.ages_ms, falls_behind.ages_ms = [1.0, 2.0], [3.0, 40.0]
    mib = 1024 * 1024
    seen = Observation(
        seconds=2,
        resident=[100 * mib, 104 * mib, 105 * mib, 105 * mib],
        lag={0.001: 9, 0.005: 10, math.inf: 10},
        health_ms=[1.0, 3.0, 2.0],
        list_ms=[20.0],
        sent=2,
        service_cpu_s=0.5,
    )
    found = [*memory_figures(seen), *figures(seen, [keeps_up, falls_behind], 2)]
    values = {figure.name: figure.value for figure in found}
    assert len(values) == len(found)
    assert (values["rss_growth_mib"], values["rss_growth_second_half_mib"]) == (5, 0)
    assert (values["lag_p50_ms"], values["lag_p99_ms"], values["lag_samples"]) == (1, 5, 10)
    assert (values["delta_p50_ms"], values["delta_p99_ms"], values["delta_max_ms"]) == (2.5, 40, 40)
    assert values["delta_slowest_reader_p99_ms"] == 40
    assert (values["tokens_per_s"], values["deliveries_per_s"], values["delivered_percent"]) == (1, 2, 100)
    assert (values["coalesced_percent"], values["largest_delta_tokens"]) == (25, 2)
    assert (values["healthz_p50_ms"], values["healthz_max_ms"], values["sessions_p99_ms"]) == (2, 3, 20)
    assert values["service_cpu_percent"] == 25


def test_a_crowd_names_its_model_and_knows_its_step() -> None:
    crowd = Crowd(idle=0, running=2, readers=4, rate=20, step_tokens=200)
    assert (crowd.model, crowd.step_s) == ("work-20-200", 10)


def test_limits_are_raised_only_if_necessary() -> None:
    assert bounds(Crowd(1000, 100, 1000, 20, 200)) == {}
    assert bounds(Crowd(0, 101, 1001, 20, 200)) == {
        "PALIMPSEST_MAX_RUNS": "101",
        "PALIMPSEST_MAX_READERS": "1001",
    }


def test_the_report_as_a_table_and_as_json() -> None:
    found = [Figure("rss", "Memory", 123.4, "MiB"), Figure("lag", "Lag", math.inf, "ms"), Figure("lost", "Lost", 0)]
    assert table(found).splitlines()[2:] == ["| Memory | 123 MiB |", "| Lag | inf ms |", "| Lost | 0 |"]
    document = json.loads(json.dumps(as_json(found, Crowd(1, 2, 3, 4, 5), 60, machine()), allow_nan=False))
    assert document["figures"] == {"rss": 123.4, "lag": None, "lost": 0}
    assert document["load"] == {"idle": 1, "running": 2, "readers": 3, "rate": 4, "step_tokens": 5, "seconds": 60}


def test_options_of_the_crowd() -> None:
    options = parse([])
    assert (options.idle, options.running, options.readers, options.rate, options.seconds) == (1000, 100, 300, 20, 60)
    assert parse(["--running", "5", "--readers", "5", "--json"]).json


@pytest.mark.parametrize("arguments", ["--readers 10", "--running 0", "--rate 0", "--idle -1", "--seconds 0"])
def test_an_invalid_load_is_refused(arguments: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(arguments.split())
    assert re.search(r"--\w+ must be", capsys.readouterr().err)
