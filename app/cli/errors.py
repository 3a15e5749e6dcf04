"""What ends a command: one sentence on standard error, with a code and an exit status."""

from __future__ import annotations

from app.errors import PalimpsestError

COMPLETED, FAILED, USAGE, CANCELLED = 0, 1, 2, 130
"""Exit statuses; 130 is a shell's own for a program that Ctrl-C ended."""


class CliError(PalimpsestError):
    """The command cannot be carried out."""

    code = "command_failed"
    title = "The command failed"
    exit_status = FAILED


class InvalidSettingsError(CliError):
    """A variable or an option has a value that cannot be used."""

    code = "invalid_settings"
    title = "A setting is not valid"
    exit_status = USAGE


class NoServerError(CliError):
    code = "no_server"
    title = "No server answers"


class ServerRefusedError(CliError):
    """The server answered with a problem; the code is the problem's."""

    title = "The server refused the request"
