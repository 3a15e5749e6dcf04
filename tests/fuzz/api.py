"""The API: requests made by its own document, valid and not, and bytes that no library would send."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import requests
import schemathesis
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from schemathesis import GenerationMode
from schemathesis.core.result import Ok

from tests.fuzz.api_target import CHECKS, ENDLESS, Target, agent
from tests.fuzz.engine import Crash, Outcome
from tests.fuzz.raw_requests import SESSION, Raw, raw_requests
from tests.fuzz.rig import ANSWER_S, Rig

MAY_FAIL = {503, 507}
"""Statuses above 499 that say what is missing and when to try again."""
SILENCE_S = 0.3
"""Seconds to wait for more of a request's answer that need not come: it was cut short, or is a stream without end."""


@dataclass(frozen=True)
class Made:
    """A request that schemathesis has made; `known` aims it at what exists."""

    case: Any
    known: bool


class ApiFuzzer:
    """Sends requests to a real server and holds each answer against what the API promises."""

    def __enter__(self) -> Self:
        self._rig = Rig()
        self._rig.__enter__()
        self._rig.answers = agent
        self._target = Target(self._rig.http)
        self._http = requests.Session()
        self._http.trust_env = False
        schema = schemathesis.openapi.from_url(f"{self._rig.url}/openapi.json")
        found = [result.ok() for result in schema.get_all_operations() if isinstance(result, Ok)]
        self._operations = [operation for operation in found if operation.path != ENDLESS]
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()
        self._rig.__exit__(None, None, None)

    def cases(self) -> SearchStrategy[Made | Raw]:
        made = [
            operation.as_strategy(generation_mode=mode) for operation in self._operations for mode in GenerationMode
        ]
        documented = st.builds(Made, st.one_of(made), st.booleans())
        return st.one_of(documented, raw_requests())

    def shown(self, case: Made | Raw) -> str:
        if isinstance(case, Raw):
            return repr(case)
        return f"{case.case.as_curl_command()}  # known: {case.known}"

    def attempt(self, case: Made | Raw) -> list[Outcome]:
        return [self._raw(case) if isinstance(case, Raw) else self._made(case)]

    def _made(self, made: Made) -> Outcome:
        case = self._target.aim(made.case) if made.known else made.case
        response = case.call(session=self._http, timeout=ANSWER_S)
        if response.status_code in MAY_FAIL:
            _check_problem(response.status_code, response.content)
        else:
            case.validate_response(response, checks=CHECKS)
        return case.operation.label, str(response.status_code)

    def _raw(self, raw: Raw) -> Outcome:
        data = raw.data.replace(SESSION.encode(), self._target.session_id.encode())
        head, body = self._sent(data, raw)
        found = re.match(rb"HTTP/1\.1 (\d{3}) ", head)
        if head and not found:
            raise Crash(f"not an answer: {head[:200]!r}")
        status = int(found[1]) if found else 0
        if not status and raw.framed and raw.target and b"HTTP/1.1\r\n" in data:
            raise Crash("a whole request has no answer")
        if status >= 500:
            if status not in MAY_FAIL:
                raise Crash(f"answered {head!r} {body!r}")
            _check_problem(status, body)
        self._rig.alive()
        return "bytes", str(status) if status else "closed without an answer"

    def _sent(self, data: bytes, raw: Raw) -> tuple[bytes, bytes]:
        """What comes back: head and body, the latter as far as it came at once."""
        port = int(self._rig.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S) as connection:
            answer = b""
            try:
                connection.sendall(data)
                if not raw.framed:
                    connection.shutdown(socket.SHUT_WR)
                for piece in _pieces(connection):
                    answer += piece
                    if b"\r\n\r\n" in answer:
                        connection.settimeout(SILENCE_S)
                    if _is_whole(answer):
                        break
            except TimeoutError:
                if b"\r\n\r\n" not in answer:
                    raise Crash(f"no answer within {ANSWER_S} s") from None
            except OSError:
                pass  # it may hang up on what it does not take, be it while that is still on its way
        head, _, body = answer.partition(b"\r\n\r\n")
        return head, body


def _pieces(connection: socket.socket) -> Iterator[bytes]:
    while piece := connection.recv(65_536):
        yield piece


def _is_whole(answer: bytes) -> bool:
    head, mark, body = answer.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
    return bool(mark) and (length is not None and len(body) >= int(length[1]))


def _check_problem(status: int, body: bytes) -> None:
    problem = json.loads(body)
    if problem.get("status") != status or not problem.get("code"):
        raise Crash(f"{status} without a problem: {body[:500]!r}")
