"""Plays the stories against a real server and writes the results into the package."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson

import evals
from benchmarks.histories.stories import STORIES
from benchmarks.histories.story import Story
from evals.histories import SUFFIX, parse_history
from tests.behavior.harness import OPENAI, Client, RunningServer, settings_for
from tests.provider import FakeProvider
from tests.provider.server import running_provider

FOLDER = Path(evals.__file__).parent / "histories"

WINDOW = 1_000_000
"""Tokens; no session of a story may be compacted while it is recorded."""


async def record(story: Story, provider: FakeProvider, url: str) -> bytes:
    """The recorded story as JSON."""
    provider.script(*(reply for turn in story.turns for reply in turn.replies))
    async with Client(url) as client:
        session = await client.create(limits={"max_steps": None})
        for turn in story.turns:
            if turn.cut:
                path = f"/v1/sessions/{session['id']}"
                (await client.http.patch(path, json={"limits": {"max_steps": len(turn.replies)}})).raise_for_status()
            after = (await client.session(session["id"]))["last_seq"]
            await client.post(session["id"], turn.user)
            await client.until_idle(session["id"], after)
            outcome = (await client.session(session["id"]))["outcome"]
            if outcome != ("limit_reached" if turn.cut else "completed"):
                raise SystemExit(f"{story.name}: the turn {turn.user[:40]!r} ended as {outcome}")
        messages = await client.messages(session["id"])
    made: dict[str, Any] = {
        "name": story.name,
        "about": story.about,
        "format": "palimpsest",
        "messages": messages,
        "probes": [probe.model_dump() for probe in story.probes],
    }
    return orjson.dumps(made, option=orjson.OPT_INDENT_2)


async def record_all(names: list[str], folder: Path) -> None:
    with TemporaryDirectory() as data, running_provider() as provider:
        provider.configure(window=WINDOW)
        # A story says all that happens in it.
        alone = {"last_step_s": 0, "loop_guard_tell": 0, "models": {OPENAI: {"context_window": WINDOW}}}
        settings = settings_for(Path(data), provider, "bubblewrap", **alone)
        server = RunningServer(settings).start()
        try:
            for story in STORIES:
                if names and story.name not in names:
                    continue
                document = await record(story, provider, server.url)
                parse_history(document, story.name)
                # No time in the header: the file changes only with what is in it.
                packed = gzip.compress(document, mtime=0)
                (folder / (story.name + SUFFIX)).write_bytes(packed)
                sys.stderr.write(f"{story.name}: {len(document):,} bytes, {len(packed):,} packed\n")
        finally:
            server.stop()
        if provider.refusals or provider.script_errors:
            raise SystemExit(f"The provider refused: {provider.refusals} {provider.script_errors}")
