"""The model of a run: the strict provider's answers, drawn from the seed, and the weather that spoils them."""

from __future__ import annotations

import random
import re
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from app.tools.delegate import NAME as DELEGATE
from app.tools.registry import default_tools
from tests.mcp_servers import SCRIPT
from tests.provider import (
    Answer,
    Delay,
    EndWithoutFinish,
    Hang,
    HttpError,
    Interleaved,
    Reasoning,
    RecordedRequest,
    Reply,
    Reset,
    StreamError,
    Text,
    ToolCall,
)
from tests.soak.plan import WARM

LOG = "ran.log"
"""The workspace's file in which each command writes its token first."""
NO_ROOM = 97
"""Exit code of a command that could not write its token."""
MARK = re.compile(r"\[\[([a-z0-9.-]+)\]\]")
"""How each message names its session and itself."""

CLIENT_TOOL: dict[str, Any] = {
    "type": "client",
    "name": "ask",
    "description": "Asks the user.",
    "parameters": {"type": "object", "properties": {"question": {"type": "string"}}, "required": ["question"]},
    "timeout_s": 20,
}
"""The tool that users carry out."""
COMMAND_SERVER: dict[str, Any] = {"command": "sh", "args": ["-c", SCRIPT]}
"""An MCP server that runs in the sandbox; calls of `die` end it."""
ADD, TOUCH, DIE = "mcp__url__add", "mcp__sh__touch", "mcp__sh__die"
TOOLS = [CLIENT_TOOL, *(tool.name for tool in default_tools())]
"""All tools, since only those who name `delegate` have it."""
SUMMARY = "The user asks for small things again and again; some are done. Next: go on with the latest message."


class Weather:
    """What is wrong with the provider for a while: kinds of `plan.FaultKind`, each until a time."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def spoil(self, kind: str, seconds: float) -> None:
        self._until[kind] = time.monotonic() + seconds

    def answer(self, rng: random.Random) -> Answer | None:
        """A spoiled answer, if the weather or chance demands one."""
        now = time.monotonic()
        kinds = [kind for kind, until in self._until.items() if until > now]
        if kinds and rng.random() < 0.7:
            return _spoilt(rng.choice(kinds), rng)
        if rng.random() < 0.02:
            return _spoilt(rng.choice(("provider_resets", "provider_429", "provider_500")), rng)
        return None


def _spoilt(kind: str, rng: random.Random) -> Answer:
    match kind:
        case "provider_resets":
            half = ToolCall("execute_command", {"command": "echo never >> ran.log"}, chunks=4, pause=Reset())
            resets = [Reply(Reset()), Reply(Text("half of it ", 3), Reset()), Reply(half), Reply("x", Reset("close"))]
            return rng.choice(resets)
        case "provider_stalls":
            return rng.choice([Reply(Hang()), Reply(Text("half of it ", 3), Hang()), Reply(Delay(1.5), Text("late"))])
        case "provider_429":
            return HttpError(429, headers={"retry-after": "0.3"})
        case _:
            errors: list[Answer] = [HttpError(500), HttpError(529), Reply("x", StreamError())]
            return rng.choice([*errors, Reply("y", EndWithoutFinish())])


def _warming(name: str, turn: int, offered: Sequence[str]) -> Reply:
    """Each tool once for the task, then a text."""
    if turn > 1 or not name.endswith(".task"):
        return Reply(Reasoning("Warm.", chunks=2), Text("warm", chunks=2))
    names = ("list_directory", {"path": "."}), ("search_files", {"pattern": "line"}), ("history_search", {"query": "s"})
    return Reply(
        ToolCall("execute_command", {"command": "echo warm; seq 1 100"}),
        ToolCall("write_file", {"path": "warm.txt", "content": "line\n" * 100}),
        ToolCall("read_file", {"path": "warm.txt"}),
        ToolCall("update_plan", {"items": [{"text": "go on", "status": "pending"}]}),
        ToolCall("memory_write", {"content": "remember\n"}),
        *(ToolCall(name, arguments) for name, arguments in names),
        *(ToolCall(name, {"a": -1, "b": 1}) for name in (ADD, TOUCH) if name in offered),
        *(ToolCall(DELEGATE, {"task": f"Do it. [[{name}.sub]]"}) for _ in range(2) if DELEGATE in offered),
    )


class Model:
    """Answers every request: a few steps with calls, then a text. The answer hangs on the seed, the newest message and
    how often it was answered. `digits` make the sleeps of this run's commands known in a list of processes."""

    def __init__(self, seed: int, weather: Weather, digits: str, witness: int | None = None) -> None:
        """`witness` is a port of this machine to which each command sends its token, None for none."""
        self._seed = seed
        self._tells = "" if witness is None else f"echo {{}} >/dev/tcp/127.0.0.1/{witness}; "
        self._weather = weather
        self._digits = digits
        self._turns: Counter[str] = Counter()
        self._tokens = 0
        self._lock = threading.Lock()

    def answer(self, request: RecordedRequest) -> Answer:
        names = MARK.findall(request.last_user_text) or MARK.findall(request.first_user_text)
        name = names[-1] if names else "none"
        with self._lock:
            self._turns[name] += 1
            turn = self._turns[name]
        rng = random.Random(f"{self._seed}/{name}/{turn}")
        spoilt = self._weather.answer(rng)
        if spoilt is not None:
            return spoilt
        is_warming = name.startswith(WARM)
        if "execute_command" not in request.tool_names:
            paces = (None,) if is_warming else (None, 10.0, 30.0)
            return Reply(Text(SUMMARY, chunks=rng.randint(3, 30)), pace=rng.choice(paces))
        if is_warming:
            return _warming(name, turn, request.tool_names)
        return self._good(rng, name, turn, request.tool_names)

    def _good(self, rng: random.Random, name: str, turn: int, offered: Sequence[str]) -> Reply:
        pace = rng.choice((None, None, 30.0, 100.0))
        thought = (Reasoning("Let me think. " * rng.randint(1, 9), chunks=4),) if rng.random() < 0.3 else ()
        if rng.random() < 0.2 + 0.15 * turn:
            finish = rng.choices((None, "length", "refusal", "content_filter"), (92, 4, 2, 2))[0]
            words = f"Done with {name}. " * rng.randint(1, 40)
            return Reply(*thought, Text(words, chunks=rng.randint(1, 30)), finish=finish, pace=pace)
        calls = [self._call(rng, name, offered) for _ in range(rng.choice((1, 1, 1, 2, 3, 5)))]
        said = (Text("I will look. ", chunks=3),) if rng.random() < 0.5 else ()
        if len(calls) > 1 and rng.random() < 0.3:
            return Reply(*thought, *said, Interleaved(*calls), pace=pace)
        return Reply(*thought, *said, *calls, pace=pace)

    def _call(self, rng: random.Random, name: str, offered: Sequence[str]) -> ToolCall:
        chunks = rng.randint(1, 6)
        if DELEGATE in offered and rng.random() < 0.1:
            return ToolCall(DELEGATE, {"task": f"Do small things. [[{name}.{self._token()}]]"}, chunks=chunks)
        if rng.random() < 0.2 and (remote := [name for name in (ADD, ADD, TOUCH, TOUCH, DIE) if name in offered]):
            # Each with another number, so that a second call of it is noticed.
            return ToolCall(rng.choice(remote), {"a": int(self._token()[1:]), "b": 1}, chunks=chunks)
        if rng.random() < 0.6:
            return ToolCall("execute_command", self._command(rng), chunks=chunks)
        others: list[tuple[str, dict[str, Any] | str]] = [
            ("read_file", {"path": LOG}),
            ("write_file", {"path": f"f{rng.randint(0, 9)}.txt", "content": "line\n" * rng.randint(1, 2000)}),
            ("list_directory", {"path": "."}),
            ("search_files", {"pattern": "line"}),
            ("update_plan", {"items": [{"text": "go on", "status": "pending"}]}),
            ("memory_write", {"content": "remember\n" * rng.randint(1, 20)}),
            ("history_search", {"query": "small"}),
            ("no_such_tool", {"a": 1}),
            (CLIENT_TOOL["name"], {"question": "Which?"}),
            (CLIENT_TOOL["name"], {"question": "Which?"}),
            (CLIENT_TOOL["name"], {}),
            ("read_file", '{"path": '),
        ]
        other, arguments = rng.choice(others)
        return ToolCall(other, arguments, chunks=chunks)

    def _token(self) -> str:
        """Another one for each call."""
        with self._lock:
            self._tokens += 1
            return f"c{self._tokens}"

    def _command(self, rng: random.Random) -> dict[str, object]:
        token = self._token()
        digits, tells = self._digits, self._tells.format(token)
        body = rng.choice(
            [
                "true",
                "echo out; echo err >&2; exit 3",
                f"sleep {rng.randint(0, 2)}.{digits}",
                f"trap '' TERM INT; echo begun; sleep 3.{digits}",
                f"(setsid sleep 30.{digits} >/dev/null 2>&1 &); echo left behind",
                "seq 1 4000",
                "for i in 1 2 3 4 5; do echo line $i; sleep 0.1; done",
                "head -c 40000 /dev/zero | tr '\\0' x",
                f"wc -l < {LOG}",
            ]
        )
        arguments: dict[str, object] = {"command": f"echo {token} >> {LOG} || exit {NO_ROOM}; {tells}{body}"}
        if rng.random() < 0.15:
            arguments = {"command": f"{arguments['command']}; sleep 20.{digits}", "timeout_s": 1}
        elif rng.random() < 0.2:
            arguments["background"] = True
        return arguments
