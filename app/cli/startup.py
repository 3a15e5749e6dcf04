"""What a command does before its work: loads fast, reads settings with errors that name the variable, and claims the
data directory."""

from __future__ import annotations

import ctypes
import gc
import os
import re
import shlex
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from app.cli.screen import CliError, InvalidSettingsError
from app.errors import StorageError

if TYPE_CHECKING:
    from pydantic import ValidationError

    from app.settings import Settings

RARELY = (5_000, 4, 1_000)
"""Thresholds of the garbage collector's three generations. Reference counting frees nearly all of a server's objects,
and a full collection stops the process for 0.1 s with 100 running sessions; with Python's defaults there was one every
few seconds. The second generation is collected before it has more than 20,000 objects, which takes 10 ms: reading a
large workspace makes many more at once. `FullCollections` makes full ones due sooner."""
FULL_S = 120.0
"""Seconds after which a full collection is due. The number of objects does not tell when one is due: reading a large
workspace makes as many in seconds as other work in an hour, in which errors with their tracebacks, and packages such as
the MCP client, leave cycles behind: 20 MB in four minutes with 24 sessions at work, each with two MCP servers."""
SWITCH_S = 0.001
"""How long a thread that computes keeps the interpreter while another one waits. With Python's default of 5 ms, the
event loop waits that long several times for each request while a large workspace is read."""

ARENAS = 2
"""Max glibc heaps (arenas) for concurrently allocating threads; the default is 8 per processor, and memory freed in
them is rarely returned. Measured after 400 sessions: 153 MB instead of 159."""
_M_ARENA_MAX = -8
OWN_PAGES = 256 * 1024
"""Size in bytes from which a block gets its own pages, which return to the system when it is freed. By default, glibc
raises this to the largest freed block and keeps the memory of large messages. Measured after 160 sessions with
one-megabyte messages were deleted: 357 MB instead of 1,407."""
_M_MMAP_THRESHOLD = -3

FIRST = "-20"
"""Niceness of the server's autogroup (man 7 sched). Each `setsid` in a command starts another group; this one has 87
times its share of the processor. A server in a terminal shares a group with the shell, which is left as it is."""

UNUSED = ("rich", "pygments", "watchfiles")
"""Packages that structlog, httpx and uvicorn import if they can: for colored output, which no server prints, and to
reload changed code."""

FILE = "server.url"


def prepare_to_serve() -> None:
    """Tunes garbage collection, memory and CPU priority for a long-running server. Call it before starting threads."""
    gc.set_threshold(*RARELY)
    gc.callbacks.append(FullCollections())
    sys.setswitchinterval(SWITCH_S)
    if os.getsid(0) == os.getpid():
        with suppress(OSError):  # not root, or a kernel without autogroups
            Path("/proc/self/autogroup").write_text(FIRST)
    with suppress(OSError, AttributeError):  # other C libraries have neither heaps of that kind nor `mallopt`
        allocator = ctypes.CDLL(None)
        allocator.mallopt(_M_ARENA_MAX, ARENAS)
        allocator.mallopt(_M_MMAP_THRESHOLD, OWN_PAGES)


class FullCollections:
    """The collector's callback that makes a full collection due `FULL_S` after the last one. Python still skips it
    while few objects are new, so that an idle server has none."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = clock()

    def __call__(self, phase: str, info: Mapping[str, int]) -> None:
        if phase == "stop" and info["generation"] == 2:
            self._last = self._clock()
            gc.set_threshold(*RARELY)
        elif self._clock() - self._last >= FULL_S:
            gc.set_threshold(*RARELY[:2], 0)


@contextmanager
def loading() -> Iterator[None]:
    """Imports what a server needs inside the block, faster and smaller.

    Without garbage collection it takes a tenth less, and what is imported is excluded from later collections, since it
    is never freed. Without `UNUSED`, the server takes 6 MiB less.
    """
    gc.disable()
    hidden = [name for name in UNUSED if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]
        gc.freeze()
        gc.enable()


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
    told = ((each["loc"], each["msg"].removeprefix("Value error, ")) for each in errors)
    return "; ".join(f"{_variable(location)}: {_lower_first(message)}" for location, message in told) + "."


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


@contextmanager
def claimed(data_dir: Path, *, shared: bool = False) -> Iterator[IO[str]]:
    """Locks the directory for this process and yields the file for the URL: two servers on one database would resume
    each other's runs. The kernel releases the lock if the process dies. Nodes of a cluster have the lock together
    (`shared`).

    Raises `StorageError` if the directory is not writable, and `CliError` if another process holds the lock.
    """
    import fcntl

    try:
        opened = (data_dir / FILE).open("a+")
    except OSError as error:
        raise StorageError(f"The data directory {data_dir} cannot be written: {error.strerror}.") from error
    with opened as file:
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise in_use(data_dir) from error
        if not shared:
            file.truncate(0)
        try:
            yield file
        finally:
            if not shared:
                file.truncate(0)


def in_use(data_dir: Path) -> CliError:
    """The error that names who uses the directory: a server with a known URL, or a command with its own server."""
    url = announced_url(data_dir)
    who = f"The server at {url}" if url else "Another Palimpsest"
    advice = "use that server" if url else "start `palimpsest serve` to run several tasks at once"
    return CliError(f"{who} uses {data_dir}; {advice}, or set another PALIMPSEST_DATA_DIR.", code="data_dir_in_use")


def announce(file: IO[str], url: str) -> None:
    """Writes the URL of this data directory's server."""
    file.write(url)
    file.flush()


def announced_url(data_dir: Path) -> str | None:
    """The URL that a server of this directory wrote; it may have stopped since."""
    with suppress(OSError):
        return (data_dir / FILE).read_text().strip() or None
    return None


def warn_of_unknown_variables() -> None:
    """Warns of each variable that looks like a setting but is not one; its value may be a key and is not logged."""
    import structlog

    for name, near in unknown_variables().items():
        structlog.get_logger(__name__).warning(
            "unknown_setting", variable=name, **({} if near is None else {"did_you_mean": near})
        )


def warn_of_open_directory(data_dir: Path) -> None:
    """Warns if other users of the machine can read the server's data, with the command that prevents it."""
    import structlog

    if (remedy := how_to_close(data_dir)) is not None:
        mode = stat.S_IMODE(data_dir.stat().st_mode)
        structlog.get_logger(__name__).warning(
            "data_dir_open_to_others", data_dir=str(data_dir), mode=f"{mode:04o}", remedy=remedy
        )


def how_to_close(data_dir: Path) -> str | None:
    """The command that denies other users access to a directory; None if they have none."""
    is_open = data_dir.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    return f"chmod 700 {shlex.quote(str(data_dir))}" if is_open else None
