"""OpenCode on the same work, for comparison: a step with one `echo` in its server."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from benchmarks.processes import PROVIDER, WINDOW, Server, free_port, start_process
from benchmarks.stats import gaps

MODEL = "bash-opencode"
RUN_S = 600.0
"""How long its run may take, in seconds."""


async def opencode_steps_ms(source: Server, steps: int, warm: int, thinking_ms: int) -> tuple[str, list[float]] | None:
    """The version of OpenCode, and what each of its steps takes above the model's time, without the first `warm` ones;
    None if this machine has no `opencode`."""
    program = shutil.which("opencode")
    if program is None:
        print("no opencode to compare with; `npm install -g opencode-ai` installs it", file=sys.stderr)
        return None
    async with (
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{source.port}", trust_env=False) as model,
        _opencode(program, source) as server,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", trust_env=False, timeout=RUN_S) as client,
    ):
        version = (await client.get("/global/health")).raise_for_status().json()["version"]
        await model.put(f"/plan/{MODEL}/{warm + steps}/{thinking_ms}")
        session = (await client.post("/session", json={})).raise_for_status().json()
        message = {
            "model": {"providerID": PROVIDER, "modelID": MODEL},
            "parts": [{"type": "text", "text": "go on"}],
        }
        (await client.post(f"/session/{session['id']}/message", json=message)).raise_for_status()
        calls = (await model.get(f"/calls/{MODEL}")).json()[warm:]
    return version, [gap * 1000 for gap in gaps([(begin, end) for begin, end, _ in calls])]


@asynccontextmanager
async def _opencode(program: str, source: Server) -> AsyncIterator[Server]:
    """Its server with a new home, which is also its project, with the source as its only provider and no questions."""
    limit = {"context": WINDOW, "output": 8_000}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"http://127.0.0.1:{source.port}/v1", "apiKey": "none"},
        "models": {name: {"tool_call": True, "limit": limit} for name in (MODEL, "title")},
    }
    config = {
        "autoupdate": False,
        "share": "disabled",
        "permission": "allow",
        "small_model": f"{PROVIDER}/title",
        "provider": {PROVIDER: provider},
    }
    with tempfile.TemporaryDirectory(prefix="palimpsest-bench-") as home:
        port = free_port()
        environment = {
            **os.environ,
            "HOME": home,
            **{f"XDG_{name}_HOME": f"{home}/{name}" for name in ("CACHE", "CONFIG", "DATA", "STATE")},
            "OPENCODE_CONFIG_CONTENT": json.dumps(config),
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
        }
        command = [program, "serve", "--port", str(port)]
        async with start_process(command, port, "/global/health", environment, Path(home)) as server:
            yield server
