"""`palimpsest serve`: starts the server, says what it found and how to try it."""

from __future__ import annotations

from contextlib import suppress

from app import __version__
from app.bootstrap import Runtime, prepare_data_dir
from app.cli.checks import GIVE_A_KEY, model_problem
from app.cli.config import load_settings
from app.cli.presence import announce, claimed
from app.cli.screen import Screen
from app.server import run
from app.settings import Settings


def serve(host: str | None, port: int | None) -> None:
    """Serves until a signal ends it."""
    settings = load_settings(host=host, port=port)
    prepare_data_dir(settings)
    with claimed(settings.data_dir) as file:

        def ready(runtime: Runtime, url: str) -> None:
            url = reachable(url)
            announce(file, url)
            Screen().line(greeting(settings, runtime.model, runtime.sandbox, url))

        with suppress(KeyboardInterrupt):
            run(settings, ready)


def reachable(url: str) -> str:
    """The URL for this machine, where the server listens on every address."""
    return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")


def greeting(settings: Settings, model: str, sandbox: str, url: str) -> str:
    """What a person needs to know once the server is ready. No secret is in it."""
    problem = model_problem(settings)
    key = ' -H "Authorization: Bearer $KEY"' if settings.api_keys else ""
    return "\n".join(
        [
            f"Palimpsest {__version__} at {url}",
            "",
            f"  model    {model}" + (f": {problem}; {GIVE_A_KEY}" if problem else ""),
            f"  sandbox  {_sandbox(sandbox)}",
            f"  data     {settings.data_dir}",
            f"  access   {_access(settings)}",
            "",
            "Try it:",
            "",
            f"  curl -N {url}/v1/sessions{key} -H 'Accept: text/event-stream' \\",
            "    -H 'Content-Type: application/json' -d '{\"task\": \"Write a shell script that makes slugs\"}'",
            "",
            f'or `palimpsest run "…"`, or {url} in a browser. Ctrl-C stops the server.',
        ]
    )


def _sandbox(found: str) -> str:
    if found == "no sandbox":
        return "none: commands cannot run. `palimpsest doctor` says what is missing"
    return found


def _access(settings: Settings) -> str:
    if not settings.api_keys:
        return "this machine only, without a key"
    count = len(settings.api_keys)
    return f"with one of {count} API keys" if count > 1 else "with the API key of PALIMPSEST_API_KEYS"
