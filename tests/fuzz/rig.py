"""A real server with the strict provider, for the fuzzers that use the public API."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import httpx

from app.sandbox.host.directories import delete_tree
from tests.behavior.harness import OPENAI, RunningServer, settings_for
from tests.databases import make_database
from tests.fuzz.engine import Crash
from tests.provider import DONE, FakeProvider, RecordedRequest
from tests.provider.script import Answer

CASES_A_SESSION = 20
"""Cases per session: keeps histories short without creating a session for each case."""
ANSWER_S = 60.0
"""Timeout for a response on a busy machine, in seconds."""

RUN_S = 90.0
"""Timeout for a run of a few steps, in seconds."""


class Rig:
    """Entered, the server runs. `answers` says what the model answers from now on."""

    def __init__(self, **settings: Any) -> None:
        self._settings = settings
        self.answers: Callable[[RecordedRequest], Answer] = lambda _: DONE
        self._used = 0
        self._session: str | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="palimpsest-fuzz-")))
            self.provider = stack.enter_context(FakeProvider(keep=100))
            self.provider.respond(lambda request: self.answers(request))
            self.data_dir = self.folder / "data"
            # Some trees in it are too deep for Python's own deletion.
            stack.callback(delete_tree, self.data_dir)
            make_database(self.data_dir / "palimpsest.db")
            # The same call is made again and again, and no session grows so long that it is compacted.
            given = {
                "sandbox": "bubblewrap",
                "provider_max_attempts": 1,
                "loop_guard_tell": 0,
                "loop_guard_end": 0,
                "tool_output_chars": 2_000,
                **self._settings,
            }
            server = RunningServer(settings_for(self.data_dir, self.provider, given.pop("sandbox"), **given)).start()
            stack.callback(server.stop)
            self.url = server.url
            self.http = stack.enter_context(httpx.Client(base_url=self.url, trust_env=False, timeout=ANSWER_S))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def session(self) -> str:
        """A session to try the next case in."""
        if self._session is None or self._used >= CASES_A_SESSION:
            if self._session is not None:
                self.http.delete(f"/v1/sessions/{self._session}").raise_for_status()
            self._session = self.new_session()
            self._used = 0
        self._used += 1
        return self._session

    def forget_session(self) -> None:
        """The next case gets another session."""
        self._session = None

    def new_session(self, **fields: Any) -> str:
        answer = self.http.post("/v1/sessions", json={"model": OPENAI, **fields})
        return str(answer.raise_for_status().json()["id"])

    def told(self, session_id: str, text: str) -> list[dict[str, Any]]:
        """Sends a message and waits until the session is idle; returns the data of the events since. Raises `Crash` if
        the message is not accepted or the session does not become idle."""
        after = self.http.get(f"/v1/sessions/{session_id}").raise_for_status().json()["last_seq"]
        posted = self.http.post(f"/v1/sessions/{session_id}/queue", json={"content": text, "mode": "follow_up"})
        if posted.status_code >= 300:
            raise Crash(f"a message was refused: {posted.status_code} {posted.text}")
        deadline = time.monotonic() + RUN_S
        with self.http.stream("GET", f"/v1/sessions/{session_id}/events?until=idle&after={after}") as stream:
            data = b""
            for piece in stream.iter_raw():
                data += piece
                if time.monotonic() > deadline:
                    raise Crash(f"the session is not idle after {RUN_S} s")
        return list(_events(data))

    def alive(self) -> None:
        """Raises `Crash` unless the server answers."""
        try:
            answer = self.http.get("/healthz", timeout=ANSWER_S)
        except httpx.HTTPError as error:
            raise Crash(f"the server does not answer any more: {error!r}") from error
        if answer.status_code != 200:
            raise Crash(f"/healthz answers {answer.status_code}")


def _events(data: bytes) -> Iterator[dict[str, Any]]:
    """The events of a stream. Its lines end with LF only; httpx would also split at other line separators."""
    kind = ""
    for line in data.replace(b"\r\n", b"\n").split(b"\n"):
        if line.startswith(b"event: "):
            kind = line.removeprefix(b"event: ").decode()
        elif line.startswith(b"data: "):
            yield {"event": kind, **json.loads(line.removeprefix(b"data: "))}
