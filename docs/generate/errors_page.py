"""`errors.md`: every error code, by who meets it, with what it means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from app.agent.faults import RoundCode
from app.errors import Reshape
from docs.generate import APP
from docs.generate.error_codes import ErrorCode, classes_in, descendants, error_classes, made_codes, parse_sources
from docs.generate.markdown import table

ERRORS_HEAD = """\
# Errors

Codes are stable: programs look at the code, people read `detail`. Written by `make docs` from the source; change titles
and codes there.

- [Of an answer](#of-an-answer): what a request can be answered with.
- [Of a run](#of-a-run): what stands in a session's `error`.
- [Of a round](#of-a-round): what stands in a `compaction.failed` event.
- [Of the command line](#of-the-command-line): what a command ends with.

## Of an answer

The answer is an RFC 9457 problem document, `application/problem+json`.
"""

RUN_HEAD = """
## Of a run

A run that failed, reached a limit or was given up leaves the same kind of document in the session's `error` and in the
`error` of its last event, `session.idle`. What the provider did stands there after the last attempt; each attempt
before it is a `step.retrying` event with the code. A message's own `error` is `context_overflow` where the provider
found the request too long.
"""

ROUND_HEAD = """
## Of a round

A rung of the ladder that did not do leaves a `compaction.failed` event with one of these codes; its `next` is the rung
that was tried instead. Where asking a model failed, the code is that of a run which fails by the same: `unknown_model`,
`missing_api_key` or one of the provider's.
"""

CLI_HEAD = """
## Of the command line

A command that fails says one sentence with a code in brackets on standard error. What the server refuses keeps the
code of its answer, or is `http_NNN` where the answer of status NNN is no problem document, and ends with status 1; so
does a start with settings that a request could not have either, such as `invalid_compaction`. Other exit statuses: 0
completed; 1 the run failed or reached a limit; 130 the run was cancelled, or Ctrl-C; 141 nobody reads the output on.
"""

FRONT = ("cli/", "evaluation/histories.py", "server.py")
"""Where errors are made that end a command or keep the server from starting; no request is answered with them."""

RUN_PLACES = ("agent/", "llm/", "runtime/recovery.py", "runtime/session.py")
"""Where a run comes to its end: what is made here ends it, unless it is one of `NOT_OF_A_RUN`."""

NOT_OF_A_RUN = ("ToolError", "ContextOverflowError")
"""Errors that are caught in these places: a result for the model, and what becomes `context_too_large`."""

OF_RUNS_ALONE = ("ProviderError", "LimitReached", "ToolError")
"""Errors, with all that descend from them, that no request is answered with, since no request waits for a step."""

FAILED, LIMITED, PARKED = "failed", "limit_reached", "interrupted"

RUN_CODES: Mapping[str, tuple[str, str]] = {
    "max_steps": (LIMITED, "The run has made as many steps as `limits.max_steps` allows."),
    "max_seconds": (LIMITED, "The run has taken as long as `limits.max_seconds` allows."),
    "max_tokens": (LIMITED, "The session has used as many tokens as `limits.max_tokens` allows."),
    "max_cost_usd": (LIMITED, "The session has cost as much as `limits.max_cost_usd` allows."),
    "loop_guard": (LIMITED, "The model made the same calls with the same results again and again."),
    "context_too_large": (FAILED, "Nothing is left that makes the context smaller; `part` names what is too large."),
    "output_limit": (FAILED, "The answer was cut off at the model's output limit twice in a row."),
    "refusal": (FAILED, "The model refused to answer."),
    "content_filter": (FAILED, "The provider's content filter ended the answer."),
    "degenerate_output": (FAILED, "The model repeated the same characters without end, twice in a row."),
    "unknown_model": (FAILED, "The session's model or its provider is not configured any more."),
    "missing_api_key": (FAILED, "The key of the model's provider is not configured any more."),
    "provider_auth": (FAILED, "The provider refused the key (401, 403)."),
    "provider_bad_request": (FAILED, "The provider refused the request (another 4xx)."),
    "provider_bad_response": (FAILED, "The provider sent what cannot be read, or more than an answer may be."),
    "provider_error": (FAILED, "The provider's stream ended before its answer did."),
    "provider_not_found": (FAILED, "The provider does not know the model, or its base URL is wrong (404)."),
    "provider_overloaded": (FAILED, "The provider has too much to do (503, 529)."),
    "provider_rate_limited": (FAILED, "The provider's rate limit, or its quota, is used up (429)."),
    "provider_server_error": (FAILED, "The provider failed (another 5xx, or an error inside its stream)."),
    "endpoint_switched": (
        FAILED,
        "The model asked to be called at its provider's other endpoint; shown with the retry there.",
    ),
    "reshape_drop_block": (
        FAILED,
        "The provider refused replayed thinking; the step is tried again, asking it to drop what it cannot verify.",
    ),
    "reshape_echo_reasoning": (
        FAILED,
        "The provider wants the model's reasoning back; the step is tried again with it.",
    ),
    "provider_stream_ended": (FAILED, "The connection ended in the middle of the answer."),
    "provider_timeout": (FAILED, "The provider sent nothing for `PALIMPSEST_PROVIDER_IDLE_TIMEOUT_S`, or said 408."),
    "provider_unreachable": (FAILED, "The provider cannot be connected to, or the connection broke."),
    "internal_error": (f"{FAILED}, {PARKED}", "A fault of the service; its log has the details."),
    "run_parked": (PARKED, "The server went down in this run, and was told not to go on by itself; resume it."),
    "recovery_limit": (PARKED, "The server went down again and again in this run; resume it to try once more."),
}
"""What each code of a run means, with the outcomes that it comes with."""

ROUND_CODES: Mapping[str, str] = {
    "summary_empty": "The model's answer has no text.",
    "summary_cut_off": "The answer was cut off twice, the second time with twice the room.",
    "summary_refused": "The model declined to answer, or the provider's content filter ended the answer.",
    "summary_called_tool": "The model called a tool instead of writing a summary.",
    "summary_too_long": "The answer is longer than what it would stand for, or than twice its cap.",
    "summary_incomplete": "The provider ended the answer for a reason that is not known here.",
    "summary_is_output": "The answer repeats a tool's output, as of a model that did what the output told it to do.",
    "too_many_calls": "A round has 12 model calls at most, and these were made or would not do.",
    "context_overflow": "The provider found the request for a summary too long for the model's window.",
    "internal_error": "A fault of the service; its log has the details.",
    "nothing_to_summarise": "There is nothing that a model could be told.",
    "not_small_enough": "The context would not be smaller than before, or not small enough for the policy.",
    "nothing_to_compact": "Somebody asked for a round, and nothing that the model has seen can be left out.",
}
"""What each code of a round means that is its own."""

COMMAND_CODES: Mapping[str, str] = {
    "ambiguous_id": "Several sessions, or calls, have an id that begins or ends so; the sentence lists them.",
    "approval_not_found": "No call that waits has an id that begins or ends so.",
    "bad_approval": "What `--approval` says is no valid JSON.",
    "bad_compaction": "The value of `--compaction` is not valid JSON.",
    "bad_url": "What `--server` or `PALIMPSEST_URL` says is no URL of a server.",
    "cannot_listen": "The server cannot listen on this address.",
    "confirmation_required": "`palimpsest prune` needs a terminal to ask on, or `--yes`.",
    "connection_lost": "The server was there, and the connection to it broke off.",
    "data_dir_in_use": "Another server, or a command with one of its own, uses the data directory.",
    "invalid_age": "`--older-than` is not an age such as 12h, 7d or 0.",
    "invalid_history": "A history given to `palimpsest eval` cannot be read as one.",
    "invalid_settings": "A variable or an option has a value that cannot be used; the sentence names it.",
    "key_required": "The server would be open to others without a key.",
    "missing_api_key": "`palimpsest eval` was given a model whose provider has no key.",
    "no_server": "No server answers where one was looked for.",
    "no_text": "There is no task or message, neither as an argument nor on standard input.",
    "not_palimpsest": "What answers at this URL is another program.",
    "not_written": "The files of a session cannot be written where they shall go.",
    "port_in_use": "Another program listens on the port.",
    "same_name": "Two histories given to `palimpsest eval` have one name, so its table could not tell them apart.",
    "session_deleted": "The session was deleted elsewhere while the command followed it.",
    "session_not_found": "No session has an id that begins or ends so.",
    "short_id": "Too little of an id was given to look for it: four characters at least.",
    "storage_unavailable": "The data directory or the database cannot be used.",
    "unavailable": "The server is starting or stopping.",
    "unknown_model": "`palimpsest eval` was given a model that no configured provider has.",
    "unknown_policy": "`palimpsest eval` was asked to compare a policy that there is not.",
}
"""What each code of a command means."""


@dataclass(frozen=True, slots=True)
class Codes:
    """The codes by who meets them; one may be of an answer and of a run."""

    answers: list[ErrorCode]
    runs: set[str]
    commands: list[ErrorCode]


def sorted_out(root: Path) -> Codes:
    """The codes in the source under `root`, by who meets them."""
    sources = parse_sources(root)
    classes = error_classes(sources)
    made = [(made.place, made.entry) for made in made_codes(sources, classes) if made.entry is not None]
    runs = {entry for place, entry in made if place.startswith(RUN_PLACES) and entry.error not in NOT_OF_A_RUN}
    commands = {entry for place, entry in made if place.startswith(FRONT)}
    elsewhere = {entry for place, entry in made if not place.startswith((*RUN_PLACES, *FRONT))}
    never = descendants(sources, OF_RUNS_ALONE) | {c.name for s, c in classes_in(sources) if s.place.startswith(FRONT)}
    answers = {entry for entry in elsewhere | set(classes.values()) if entry.error not in never}
    reshaped = {f"reshape_{reshape}" for reshape in get_args(Reshape)}
    return Codes(
        sorted(answers), {entry.code for entry in runs} | reshaped, sorted(commands, key=lambda e: (e.code, e.error))
    )


def check_meanings(name: str, explained: Iterable[str], found: Iterable[str]) -> None:
    """Raises `ValueError` where a code has no meaning here, or a meaning no code."""
    if differing := set(explained) ^ set(found):
        raise ValueError(f"{name} and the source differ in {', '.join(sorted(differing))}")


def errors_page() -> str:
    codes = sorted_out(APP)
    check_meanings("RUN_CODES", RUN_CODES, codes.runs)
    check_meanings("ROUND_CODES", ROUND_CODES, get_args(RoundCode))
    check_meanings("COMMAND_CODES", COMMAND_CODES, {entry.code for entry in codes.commands})
    answers = [[str(e.status), f"`{e.code}`", e.title, f"`{e.error}`"] for e in codes.answers]
    runs = [[f"`{code}`", outcome, meaning] for code, (outcome, meaning) in RUN_CODES.items()]
    rounds = [[f"`{code}`", meaning] for code, meaning in ROUND_CODES.items()]
    statuses = {code: sorted({str(e.exit_status) for e in codes.commands if e.code == code}) for code in COMMAND_CODES}
    commands = [[f"`{code}`", " or ".join(statuses[code]), meaning] for code, meaning in COMMAND_CODES.items()]
    return (
        f"{ERRORS_HEAD}\n{table(('Status', 'Code', 'Title', 'Class'), answers)}"
        f"{RUN_HEAD}\n{table(('Code', 'Outcome', 'Meaning'), runs)}"
        f"{ROUND_HEAD}\n{table(('Code', 'Meaning'), rounds)}"
        f"{CLI_HEAD}\n{table(('Code', 'Exit status', 'Meaning'), commands)}"
    )
