"""What ends a command: one sentence on standard error, with a code and an exit status."""

from __future__ import annotations

from app.errors import PalimpsestError

COMPLETED, FAILED, USAGE, CANCELLED, CLOSED_PIPE = 0, 1, 2, 130, 141
"""Exit statuses; 130 and 141 are a shell's own for a program that Ctrl-C ended, or that wrote to a closed pipe."""


class CliError(PalimpsestError):
    """The command cannot be carried out."""

    code = "command_failed"
    title = "The command failed"
    exit_status = FAILED


class UsageError(CliError):
    """The command was not given what it needs."""

    exit_status = USAGE


class InvalidSettingsError(UsageError):
    """A variable or an option has a value that cannot be used."""

    code = "invalid_settings"
    title = "A setting is not valid"


class NoServerError(CliError):
    code = "no_server"
    title = "No server answers"


class ConnectionLostError(CliError):
    """The server was there, and the connection to it broke off."""

    code = "connection_lost"
    title = "The connection was lost"


class SessionDeletedError(CliError):
    """The session was deleted elsewhere while the command followed it."""

    code = "session_deleted"
    title = "The session was deleted"


class ServerRefusedError(CliError):
    """The server answered with a problem; the code is the problem's."""

    title = "The server refused the request"
