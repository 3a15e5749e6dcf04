"""Paths and trees of links: file routes, tools and archive show and change only the workspace."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path
from typing import Self
from urllib.parse import quote

import httpx
from hypothesis.strategies import SearchStrategy

from app.sandbox.host.directories import delete_tree
from tests.fuzz.engine import Crash, Outcome
from tests.fuzz.outside import Outside
from tests.fuzz.path_inputs import Visit, visits
from tests.fuzz.rig import Rig
from tests.fuzz.tools import CRASHED, ENDED
from tests.provider import RecordedRequest, Reply, Text, ToolCall
from tests.provider.script import Answer

ALLOWED = {
    "get": {200, 400, 403, 404, 413, 422},
    "head": {200, 400, 403, 404, 413, 422},
    "put": {201, 204, 400, 403, 404, 422},
    "list": {200, 400, 403, 404, 422},
}
ARGUMENTS: dict[str, dict[str, str]] = {
    "read_file": {},
    "write_file": {"content": "written\n"},
    "edit_file": {"old_text": "inside", "new_text": "edited"},
    "list_directory": {},
    "search_files": {"pattern": "SECRET|inside"},
}


class PathFuzzer:
    """Creates trees in a session's workspace and requests paths in them, over HTTP and through the model."""

    def __enter__(self) -> Self:
        self._rig = Rig()
        self._rig.__enter__()
        neighbour = self._rig.new_session()
        self._rig.http.put(f"/v1/sessions/{neighbour}/files/a", content=b"").raise_for_status()
        self._outside = Outside(self._rig.data_dir, neighbour)
        return self

    def __exit__(self, *_: object) -> None:
        self._rig.__exit__(None, None, None)

    def cases(self) -> SearchStrategy[Visit]:
        return visits()

    def shown(self, case: Visit) -> str:
        return repr(case)

    def attempt(self, case: Visit) -> list[Outcome]:
        session_id = self._rig.session()
        own = self._rig.data_dir / "workspaces" / session_id
        try:
            self._furnish(session_id, own, case)
            before = self._outside.state()
            said = [self._ask(session_id, own, how, path) for how, path in case.asked if how in ALLOWED]
            called = [(how, path) for how, path in case.asked if how not in ALLOWED]
            said += self._call(session_id, called) if called else []
            self._check_archive(session_id)
            self._outside.check(before)
        except Exception:
            self._rig.forget_session()
            raise
        kinds = {entry.kind for entry in case.entries}
        tree = "links" if kinds & {"symlink", "hardlink"} else "no links"
        return [(tree, outcome) for outcome in said]

    def _furnish(self, session_id: str, own: Path, case: Visit) -> None:
        """An empty workspace, then what the case puts into it, owned as commands would have it."""
        if not own.exists():
            self._rig.http.put(f"/v1/sessions/{session_id}/files/a", content=b"inside\n").raise_for_status()
        status = own.stat()
        for path in own.iterdir():
            path.unlink() if path.is_symlink() or not path.is_dir() else delete_tree(path)
        for entry in case.entries:
            entry.make(own, self._outside.folder)
        for folder, directories, files in os.walk(os.fsencode(own)):
            for name in (*directories, *files):
                os.chown(os.path.join(folder, name), status.st_uid, status.st_gid, follow_symlinks=False)

    def _ask(self, session_id: str, own: Path, how: str, path: str) -> str:
        """Requests a path over HTTP; returns the status. The path is sent verbatim: a client would normalize `..`."""
        base = f"/v1/sessions/{session_id}/files"
        encoded = quote(path.encode("utf-8", "surrogatepass"), safe="/")
        target = f"{base}?path={encoded}" if how == "list" else f"{base}/{encoded}"
        method = {"get": "GET", "head": "HEAD", "put": "PUT", "list": "GET"}[how]
        client = self._rig.http
        content = b"written\n" if how == "put" else None
        request = client.build_request(method, "/", content=content, extensions={"target": target.encode()})
        answer = client.send(request)
        self._check_answer(how, path, answer)
        if how == "get" and answer.status_code == 200:
            _check_is_inside(own, path, answer)
        return f"{how} {answer.status_code}"

    def _check_answer(self, how: str, path: str, answer: httpx.Response) -> None:
        if answer.status_code not in ALLOWED[how]:
            raise Crash(f"{how} {path!r} is answered {answer.status_code}: {answer.text[:500]}")
        problem = answer.headers.get("content-type") == "application/problem+json"
        if answer.status_code >= 400 and how != "head" and not (problem and answer.json()["code"]):
            raise Crash(f"{how} {path!r} is refused without a problem: {answer.text[:500]}")
        if self._outside.secret in answer.content:
            raise Crash(f"{how} {path!r} has shown what lies outside")

    def _call(self, session_id: str, asked: list[tuple[str, str]]) -> list[str]:
        """Has the model use the paths; returns the statuses of the calls."""
        calls = [ToolCall(how, {"path": _sent(path), **ARGUMENTS[how]}) for how, path in asked]

        def plays(request: RecordedRequest) -> Answer:
            return Reply(Text("Done.")) if request.messages[-1]["role"] == "tool" else Reply(*calls)

        self._rig.answers = plays
        events = self._rig.told(session_id, "Go on.")
        results = [event for event in events if event["event"] == "tool.result"]
        if len(results) != len(calls):
            raise Crash(f"{len(calls)} calls have {len(results)} results")
        for result in results:
            if CRASHED in result["output"] or result["status"] not in ENDED:
                raise Crash(f"{result['name']} ended as {result['status']}: {result['output'][:2_000]}")
            if self._outside.secret.decode() in result["output"]:
                raise Crash(f"{result['name']} has shown what lies outside")
        return [f"{result['name']} {result['status']}" for result in results]

    def _check_archive(self, session_id: str) -> None:
        """The archive is complete, has only names below it, links as links, and nothing from outside."""
        answer = self._rig.http.get(f"/v1/sessions/{session_id}/archive")
        if answer.status_code != 200:
            raise Crash(f"the archive is answered {answer.status_code}: {answer.text[:500]}")
        if self._outside.secret in answer.content:
            raise Crash("the archive holds what lies outside")
        with tarfile.open(fileobj=io.BytesIO(answer.content), errors="surrogateescape") as archive:
            for member in archive:
                if member.name.startswith("/") or ".." in member.name.split("/"):
                    raise Crash(f"the archive names {member.name!r}")
                if not (member.isreg() or member.isdir() or member.issym()):
                    raise Crash(f"the archive holds {member.name!r} of type {member.type!r}")


def _sent(path: str) -> str:
    """The path as the provider can send it: lone surrogates are not JSON."""
    return path.encode("utf-8", "replace").decode()


def _check_is_inside(own: Path, path: str, answer: httpx.Response) -> None:
    """The content read is that of what the path leads to, which is inside."""
    path = path.encode("utf-8", "surrogatepass").decode("utf-8", "replace")  # as the server reads a target
    relative = os.path.relpath(path, "/workspace") if path.startswith("/") else os.path.normpath(path)
    place = Path(os.path.realpath(own / relative))
    while place.is_relative_to("/workspace"):  # through a link that is meant for the sandbox
        place = Path(os.path.realpath(own / place.relative_to("/workspace")))
    if not place.is_relative_to(own):
        raise Crash(f"{path!r} was read outside")
    if place.read_bytes() != answer.content:
        raise Crash(f"{path!r} holds something else than was read")
