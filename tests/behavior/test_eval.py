"""`palimpsest eval` as a process: with the scripted demo, and with the strict provider over both wire formats."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from evals import KINDS, LONG_HISTORIES, packaged_names
from tests.behavior.combinations import first_of
from tests.behavior.harness import ANTHROPIC, OPENAI, command
from tests.behavior.long_task import asks_for_summary
from tests.behavior.test_cli import Terminal, terminal
from tests.provider import FakeProvider, Gate, HttpError, RecordedRequest, Reply, Text

__all__ = ["terminal"]

SUMMARY = (
    "### Completed Work\n| file | done |\n| --- | --- |\n| moneta.sh | written |\n\n### Decisions\n- Markdown\n\n"
    "### Next Step\nWrite install.sh, which copies the program to .local/bin."
)
NAMES = [name for name in packaged_names() if name not in LONG_HISTORIES]
HISTORY = ("--history", "changes_of_mind")


def remembers(request: RecordedRequest) -> Reply:
    """Summarizes, and answers with the file names in its own request; knows nothing else."""
    if asks_for_summary(request):
        return Reply(Text(SUMMARY))
    said = json.dumps(request.body, ensure_ascii=False)
    return Reply(Text("The files are " + ", ".join(sorted(set(re.findall(r"[\w.]+\.(?:sh|md)", said))))))


@pytest.fixture
def strict(terminal: Terminal, provider: FakeProvider) -> Terminal:
    """The strict provider under two names, with a price."""
    terminal.env["PALIMPSEST_PROVIDERS"] = json.dumps(
        {
            "fake-openai": {"kind": "openai", "base_url": provider.openai_url},
            "fake-anthropic": {"kind": "anthropic", "base_url": provider.url},
        }
    )
    known = {"context_window": 128_000, "prices": {"input": 1, "output": 10, "cache_read": 0.1, "cache_write": 1}}
    terminal.env["PALIMPSEST_MODELS"] = json.dumps({OPENAI: known, ANTHROPIC: known})
    provider.respond(remembers)
    return terminal


def rows(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["policy"]: row for row in found["rows"]}


@pytest.mark.extended
async def test_the_demo_measures_all_histories_offline(terminal: Terminal) -> None:
    done = await terminal.ok("eval", "--out", "all.json")
    found = json.loads((terminal.folder / "all.json").read_text())
    assert list(found["histories"]) == list(found["compared"]) == NAMES
    assert len(found["rows"]) == 4 * len(NAMES)
    assert all(row["error"] is None for row in found["rows"])
    for sums in found["policies"]:
        assert set(sums["recall"]) == set(KINDS)
        assert 0 < sums["overall"] < 1
    full, *policies = found["policies"]
    # What is no longer in the context, its computed facts state: a text search finds about as much.
    assert all(sums["overall"] > 0.9 * full["overall"] for sums in policies)
    assert all(sums["tokens_after"] < 0.75 * full["tokens_before"] for sums in policies)
    # Nothing is cleared before a summary has read it.
    assert [sums["rungs"] for sums in policies] == [{"summary": 6}] * 3
    assert all(row["outputs_pruned"] == 0 for row in found["rows"])
    assert "The scripted demo only searches text" in done.out
    assert all(f"\n{name}\n" in done.out for name in NAMES)
    assert done.err.count("recalled") == len(found["rows"])
    assert not (terminal.folder / "data").exists()


@first_of(model=[OPENAI, ANTHROPIC])
async def test_a_provider_sees_only_requests_that_it_accepts(
    strict: Terminal, provider: FakeProvider, model: str
) -> None:
    found = json.loads((await strict.ok("eval", "-m", model, *HISTORY, "--json")).out)
    assert provider.refusals == []
    assert provider.broken == []
    by_policy = rows(found)
    assert list(by_policy) == ["full", "reactive", "threshold", "handoff"]
    for policy, row in by_policy.items():
        assert row["error"] is None
        assert row["notes"] == []
        assert row["rung"] == (None if policy == "full" else "summary")
        assert row["probing"]["cost_usd"] > 0
        assert (row["compaction"]["output_tokens"] > 0) == (policy != "full")
        # A question about file names is answered from the remaining conversation.
        recalled = [all(answer["found"]) for answer in row["answers"] if answer["kind"] == "files"]
        assert recalled[0]
        assert recalled[1] or policy != "full"
    for policy in ("reactive", "threshold", "handoff"):
        # It was asked in the conversation itself, whose prefix was cached from the previous questions.
        sums = next(sums for sums in found["policies"] if sums["policy"] == policy)
        assert sums["cached"] > 0.8, policy


async def test_the_price_of_a_round_follows_from_what_the_provider_reports(
    strict: Terminal, provider: FakeProvider
) -> None:
    table = (await strict.ok("eval", "-m", OPENAI, *HISTORY, "--policies", "threshold", "--out", "found.json")).out
    found = json.loads((strict.folder / "found.json").read_text())
    used = rows(found)["threshold"]["compaction"]
    price = used["input_tokens"] * 1 + used["cache_read_tokens"] * 0.1 + used["output_tokens"] * 10
    assert used["cost_usd"] == pytest.approx(price / 1_000_000)
    assert f"{used['input_tokens'] + used['cache_read_tokens']:,} in · {used['output_tokens']:,} out · $0.00" in table


async def test_rounds_use_the_sections_of_the_servers_setting(strict: Terminal, provider: FakeProvider) -> None:
    sections = "### Files\n- each file and what was done to it"
    file = strict.folder / "sections.md"
    strict.env["PALIMPSEST_SUMMARY_TEMPLATE_FILE"] = str(file)
    refused = await strict.run("eval", "-m", OPENAI, *HISTORY)
    assert refused.status == 1
    assert refused.err.endswith("sections.md cannot be read: No such file or directory. (invalid_settings)\n")
    file.write_text(sections)
    await strict.ok("eval", "-m", OPENAI, *HISTORY, "--json")
    asked = [request.last_user_text for request in provider.requests if asks_for_summary(request)]
    assert len(asked) == 3
    assert all(f"in this order:\n\n{sections}\n\nRules:" in text for text in asked)


@pytest.mark.parametrize(("option", "model"), [("-m", "nope/x"), ("--judge", "fake-openai/"), ("-m", "openai/gpt-5")])
async def test_an_unusable_model_is_reported_first(
    strict: Terminal, provider: FakeProvider, option: str, model: str
) -> None:
    refused = await strict.run("eval", option, model, *HISTORY, "--out", "found.json")
    assert (refused.status, refused.out) == (2, "")
    (line,) = refused.err.splitlines()
    assert line.startswith(
        "palimpsest: The" + (" provider openai has no API key" if "gpt" in model else "re is no model")
    )
    assert not (strict.folder / "found.json").exists()
    assert provider.requests == []


async def test_a_refused_key_is_a_row_and_not_a_crash(strict: Terminal, provider: FakeProvider) -> None:
    provider.respond(lambda request: HttpError(401))
    done = await strict.run("eval", "-m", OPENAI, *HISTORY, "--policies", "handoff")
    assert done.status == 1
    assert "handoff       failed, see below" in done.out
    assert "changes_of_mind, handoff: summary: " in done.out
    assert done.out.count("(provider_auth)") == 3


async def test_a_provider_that_refuses_summaries_is_measured_without_them(
    strict: Terminal, provider: FakeProvider
) -> None:
    def answer(request: RecordedRequest) -> Reply | HttpError:
        return HttpError(400) if asks_for_summary(request) else remembers(request)

    provider.respond(answer)
    found = json.loads((await strict.ok("eval", "-m", OPENAI, *HISTORY, "--json")).out)
    for policy, row in rows(found).items():
        assert row["error"] is None
        assert row["rung"] == (None if policy == "full" else "fold")
        assert len(row["notes"]) == (policy != "full")


async def test_a_model_that_calls_a_tool_instead_of_answering_knows_nothing(
    strict: Terminal, provider: FakeProvider
) -> None:
    provider.respond(lambda request: Reply(command("ls")))
    found = json.loads((await strict.ok("eval", "-m", OPENAI, *HISTORY, "--policies", "handoff", "--json")).out)
    assert rows(found)["handoff"]["rung"] == "fold"
    assert [sums["overall"] for sums in found["policies"]] == [0.0, 0.0]


@pytest.mark.parametrize("known", [{OPENAI: {"context_window": 7_000}}, {}], ids=["set", "reported"])
async def test_a_window_too_small_for_the_whole_history_leaves_the_baseline_out(
    strict: Terminal, provider: FakeProvider, known: dict[str, Any]
) -> None:
    strict.env["PALIMPSEST_MODELS"] = json.dumps(known)
    provider.configure(window=7_000, overflow="vllm", models=("model",))
    found = json.loads((await strict.ok("eval", "-m", OPENAI, *HISTORY, "--window", "7000", "--json")).out)
    by_policy = rows(found)
    assert "does not fit the window of 7,000" in by_policy["full"]["error"]
    assert all(by_policy[name]["error"] is None for name in ("reactive", "threshold", "handoff"))
    assert found["compared"] == ["changes_of_mind"]
    assert provider.refusals == []


async def test_ctrl_c_shows_what_is_done_and_leaves_no_traceback(strict: Terminal, provider: FakeProvider) -> None:
    def answer(request: RecordedRequest) -> Reply:
        return Reply(Gate("never"), Text(SUMMARY)) if asks_for_summary(request) else remembers(request)

    provider.respond(answer)
    evaluation = await strict.start("eval", "-m", OPENAI, *HISTORY, "--out", "part.json")
    await evaluation.complains("full: ")
    evaluation.press_ctrl_c()
    assert await evaluation.end() == 130
    assert "stopped; 1 of 4 rows are done" in evaluation.err
    assert "full context" in evaluation.out
    found = json.loads((strict.folder / "part.json").read_text())
    assert found["stopped"] is True
    assert [row["policy"] for row in found["rows"]] == ["full"]


async def test_a_judge_may_be_another_model(strict: Terminal, provider: FakeProvider) -> None:
    def answer(request: RecordedRequest) -> Reply:
        facts = re.findall(r"^(\d+): ", request.last_user_text, re.MULTILINE)
        return Reply(Text("\n".join(f"{number}: yes" for number in facts))) if facts else remembers(request)

    provider.respond(answer)
    args = ("eval", "-m", OPENAI, "--judge", ANTHROPIC, *HISTORY, "--policies", "handoff", "--json")
    found = json.loads((await strict.ok(*args)).out)
    assert [sums["judged"] for sums in found["policies"]] == [1.0, 1.0]
    assert all(row["judging"]["output_tokens"] for row in found["rows"])
    assert provider.refusals == []


async def test_a_recorded_session_can_be_replayed(terminal: Terminal) -> None:
    conversation = [
        {"role": "user", "content": "Please tell me about the lighthouse of Skagen."},
        *(
            message
            for number in range(12)
            for message in (
                {"role": "assistant", "content": f"Paragraph {number} on the lighthouse. " + "It shines. " * 60},
                {"role": "user", "content": f"And then? ({number})"},
            )
        ),
    ]
    probe = {"kind": "task", "question": "Which town's lighthouse is it?", "facts": [["Skagen"]]}
    mine = {"name": "mine", "format": "openai", "messages": conversation, "probes": [probe]}
    await asyncio.to_thread((terminal.folder / "mine.json").write_text, json.dumps(mine))
    found = json.loads((await terminal.ok("eval", "--history", "mine.json", "--json")).out)
    assert found["histories"] == ["mine"]
    assert all(row["error"] is None for row in found["rows"])


def long_history(steps: int) -> dict[str, Any]:
    """An exported conversation whose port is told in the middle of an output, and its place by the user, who changes
    it."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Deploy it to Lund. Never restart the database."}]
    for number in range(steps):
        call = {"name": "execute_command", "arguments": json.dumps({"command": f"deploy --shard {number}"})}
        calls = [{"id": f"c{number}", "type": "function", "function": call}]
        messages.append({"role": "assistant", "content": f"Shard {number}.", "tool_calls": calls})
        output = "".join(f"shard {number} row {row} copied\n" for row in range(30))
        middle = "listening on port 48213\n" if number == 3 else ""
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": f"{output}{middle}{output}"})
        if number == steps // 2:
            messages.append({"role": "assistant", "content": "Half of the shards are there."})
            messages.append({"role": "user", "content": "Not to Lund: to Umea."})
    town = {"kind": "task", "question": "Where is it deployed?", "facts": [["Umea"]], "outdated": [["Lund"]]}
    port = {"kind": "errors", "question": "Which port is the shard listening on?", "facts": [["48213"]]}
    return {"name": "deploy", "format": "openai", "messages": messages, "probes": [town, port]}


@pytest.mark.slow
async def test_long_histories_are_replayed_without_a_model(terminal: Terminal) -> None:
    await asyncio.to_thread((terminal.folder / "long.json").write_text, json.dumps(long_history(120)))
    chosen = ("--history", "long.json", "--policies", "threshold,handoff")
    done = await terminal.ok("eval", "--junk", "--oracle", *chosen, "--out", "f.json")
    found = json.loads((terminal.folder / "f.json").read_text())
    assert (found["compared"], found["stopped"]) == (["deploy"], False)
    assert [(row["policy"], row["summarizer"]) for row in found["rows"]] == [
        *(("threshold", "junk"), ("threshold", "oracle"), ("handoff", "junk"), ("handoff", "oracle"))
    ]
    for row, sums in zip(found["rows"], found["sums"], strict=True):
        town, port = row["facts"]
        assert sums["rounds"] >= 3
        # What the user said is computed; what an output said needs a summary, or a search.
        assert (town["in_context"], town["misleading"]) == (True, False)
        assert (port["in_context"], port["searched"], port["found"]) == (row["summarizer"] == "oracle", True, True)
        assert 0 < sums["cost"] < 0.8
        assert row["peak"] <= row["window"]
    assert "deploy (window 16,384, 121 steps)" in done.out
    refused = await terminal.run("eval", "--junk", "-m", "scripted/demo")
    assert (refused.status, "--junk and --oracle call no model" in refused.err) == (2, True)


async def test_ctrl_c_shows_the_replays_that_are_done(terminal: Terminal) -> None:
    await asyncio.to_thread((terminal.folder / "long.json").write_text, json.dumps(long_history(250)))
    evaluation = await terminal.start("eval", "--junk", "--oracle", "--history", "long.json", "--json")
    await evaluation.complains("reactive, junk: done")
    evaluation.press_ctrl_c()
    assert await evaluation.end() == 130
    found = json.loads(evaluation.out)
    assert found["stopped"] is True
    assert 1 <= len(found["rows"]) < 6
    assert f"stopped; {len(found['rows'])} of 8 replays are done" in evaluation.err
