"""Errors that end a command: one sentence on standard error, with a code and an exit status."""

from __future__ import annotations

from app.errors import PalimpsestError

COMPLETED, FAILED, USAGE, CANCELLED, CLOSED_PIPE = 0, 1, 2, 130, 141
"""Exit statuses; shells use 130 for a program ended by Ctrl-C, and 141 for one that wrote to a closed pipe."""


class CliError(PalimpsestError):
    """The command cannot be carried out."""

    code = "command_failed"
    title = "The command failed"
    exit_status = FAILED


class UsageError(CliError):
    """An argument or option is missing or invalid."""

    exit_status = USAGE


class InvalidSettingsError(UsageError):
    """A variable or an option has an invalid value."""

    code = "invalid_settings"
    title = "Invalid setting"


class NoServerError(CliError):
    code = "no_server"
    title = "No server answers"


class ConnectionLostError(CliError):
    """The connection to the server was lost after it was established."""

    code = "connection_lost"
    title = "The connection was lost"


class SessionDeletedError(CliError):
    """The session was deleted elsewhere while the command followed it."""

    code = "session_deleted"
    title = "The session was deleted"


class ServerRefusedError(CliError):
    """The server responded with a problem; `code` is the problem's."""

    title = "The server refused the request"
