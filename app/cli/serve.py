"""`palimpsest serve`: starts the server and prints its configuration and an example request."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from app import __version__
from app.bootstrap import Runtime, prepare_data_dir, secrets_of
from app.cli.doctor import A_DEMO, GIVE_A_KEY, NO_KEY, missing_key
from app.cli.screen import Screen
from app.cli.startup import announce, claimed, warn_of_open_directory, warn_of_unknown_variables
from app.logs import configure_logging
from app.server import run
from app.settings import DEMO_MODEL, Settings

NO_SANDBOX = "none: commands cannot run. `palimpsest doctor` shows what is missing"


def serve(settings: Settings) -> None:
    """Serves until a signal stops it."""
    configure_logging(settings.log_level, settings.log_format, secrets_of(settings))
    # First: a misspelled setting may be what keeps the server from starting.
    warn_of_unknown_variables()
    prepare_data_dir(settings)
    clustered = settings.temporal is not None
    with claimed(settings.data_dir, shared=clustered) as file:

        def ready(runtime: Runtime, url: str) -> None:
            url = reachable(url)
            if not clustered:
                announce(file, url)
            Screen().line(greeting(settings, runtime.model, runtime.sandbox, url), wrap=False)
            warn_of_open_directory(settings.data_dir)

        with suppress(KeyboardInterrupt):
            run(settings, ready)


def reachable(url: str) -> str:
    """The URL as reached from this machine if the server listens on all addresses."""
    return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")


def greeting(settings: Settings, model: str, sandbox: str | None, url: str) -> str:
    """The text shown once the server is ready; it contains no secrets."""
    key = ' -H "Authorization: Bearer $PALIMPSEST_API_KEY"' if settings.api_keys else ""
    aside = ", which also reads the key from there" if settings.api_keys else ""
    return "\n".join(
        [
            f"Palimpsest {__version__} at {url}",
            "",
            f"  model    {model}{_model_note(settings, model)}",
            f"  sandbox  {sandbox or NO_SANDBOX}",
            f"  data     {settings.data_dir}",
            f"  access   {_access(settings)}",
            "",
            *_invitation(settings),
            f"  curl -N {url}/v1/sessions{key} -H 'Accept: text/event-stream' \\",
            "    -H 'Content-Type: application/json' -d '{\"task\": \"Write a shell script that makes slugs\"}'",
            "",
            f'or `{command()} run "…"`{aside}, or {url} in a browser. Ctrl-C stops the server.',
        ]
    )


def _model_note(settings: Settings, model: str) -> str:
    if model == DEMO_MODEL:
        return f" ({A_DEMO}); {GIVE_A_KEY}"
    variable = missing_key(settings)
    return f": {NO_KEY}; set {variable}, or choose another model in PALIMPSEST_MODEL" if variable else ""


def _invitation(settings: Settings) -> list[str]:
    if not settings.api_keys:
        return ["Try it:", ""]
    return [
        "Try it, with one of the keys in PALIMPSEST_API_KEYS for KEY:",
        "",
        "  export PALIMPSEST_API_KEY=KEY",
    ]


def command() -> str:
    """The command for this program in another terminal: its name if it is on the PATH, else its path."""
    if shutil.which("palimpsest") is not None:
        return "palimpsest"
    script = Path(sys.executable).parent / "palimpsest"
    if not script.is_file():
        return f"{sys.executable} -m app"
    return os.path.relpath(script) if script.is_relative_to(Path.cwd()) else str(script)


def _access(settings: Settings) -> str:
    if not settings.api_keys:
        return "this machine only, without a key"
    count = len(settings.api_keys)
    return f"with one of {count} API keys" if count > 1 else "with the API key of PALIMPSEST_API_KEYS"
