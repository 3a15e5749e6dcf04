"""Settings for commands, with errors that name the variable at fault and never its value."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from app.cli.errors import InvalidSettingsError

if TYPE_CHECKING:
    from pydantic import ValidationError

    from app.settings import Settings


def load_settings(**given: Any) -> Settings:
    """The settings of the environment and `.env`, with those given on the command line unless None. Raises
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
    """The faults without their inputs, which may be keys."""
    faults = error.errors(include_input=False, include_url=False, include_context=False)
    return "; ".join(f"{_variable(fault['loc'])}: {_lower_first(fault['msg'])}" for fault in faults) + "."


def _variable(location: tuple[int | str, ...]) -> str:
    """`PALIMPSEST_MODELS (x.context_window)` for a fault inside the setting `models`."""
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


def environment() -> dict[str, str]:
    """The environment, and below it what a `.env` file in the working directory says."""
    from dotenv import dotenv_values

    return {**{name: value for name, value in dotenv_values(".env").items() if value}, **os.environ}
