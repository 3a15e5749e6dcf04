"""Settings for commands, with errors that name the invalid variable but never its value."""

from __future__ import annotations

import os
import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from app.cli.errors import InvalidSettingsError

if TYPE_CHECKING:
    from pydantic import ValidationError

    from app.settings import Settings


def load_settings(**given: Any) -> Settings:
    """The settings from the environment and `.env`, overridden by those in `given` that are not None. Raises
    `InvalidSettingsError`."""
    from pydantic import ValidationError
    from pydantic_settings import SettingsError

    from app.settings import Settings

    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        raise InvalidSettingsError(_sentence(error)) from error
    except SettingsError as error:
        raise InvalidSettingsError(f"{_field_named_in(str(error))} is not valid JSON.") from error


def _sentence(error: ValidationError) -> str:
    """The errors without their inputs, which may be keys."""
    errors = error.errors(include_input=False, include_url=False, include_context=False)
    return "; ".join(f"{_variable(each['loc'])}: {_lower_first(each['msg'])}" for each in errors) + "."


def _variable(location: tuple[int | str, ...]) -> str:
    """`PALIMPSEST_MODELS (x.context_window)` for an error inside the setting `models`."""
    if not location:
        return "The settings"
    name, *inside = (str(part) for part in location)
    variable = name if name.isupper() else f"PALIMPSEST_{name.upper()}"
    return f"{variable} ({'.'.join(inside)})" if inside else variable


def _field_named_in(message: str) -> str:
    found = re.search(r'field "(\w+)"', message)
    return _variable((found[1],)) if found else "A setting"


def _lower_first(message: str) -> str:
    return message[:1].lower() + message[1:]


PREFIX = "PALIMPSEST_"
OF_TESTS = f"{PREFIX}TEST_"

NO_SETTINGS = frozenset({"PALIMPSEST_URL", "PALIMPSEST_API_KEY", "PALIMPSEST_SESSION"})
"""Known variables that are not settings: the URL and key that commands use, and the one that marks commands of an
unsafe sandbox."""


def unknown_variables() -> dict[str, str | None]:
    """Unknown variables with Palimpsest's prefix, each with the most similar known one, or None. Empty ones count as
    unset. Names that are not identifiers are skipped: they may be keys from a malformed line of `.env`."""
    from app.settings import Settings

    known = {name.removeprefix(PREFIX): name for name in sorted(Settings.variables() | NO_SETTINGS)}
    found: dict[str, str | None] = {}
    for name, value in sorted(environment().items()):
        written = name.upper()
        ours = written.startswith(PREFIX) and not written.startswith(OF_TESTS) and name.isidentifier()
        if ours and value and written.removeprefix(PREFIX) not in known:
            # Compared without the prefix, which would make any two names similar.
            near = get_close_matches(written.removeprefix(PREFIX), known, n=1)
            found[name] = known[near[0]] if near else None
    return found


def environment() -> dict[str, str]:
    """The environment, with defaults from a `.env` file in the working directory."""
    from dotenv import dotenv_values

    return {**{name: value for name, value in dotenv_values(".env").items() if value}, **os.environ}
