"""The shell scripts around commands in a container, the streams of `docker exec` that carry them, and what the scripts
report in the commands' output."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import aiodocker
from aiodocker.stream import Stream as ExecStream

from app.errors import SandboxError
from app.sandbox.base import LiveInput
from app.sandbox.docker.engine import Engine, translated_refusals

# It waits for two lines of input. The first is the mark: as an argument, every process of the container could read it.
# The second is that of `order`; an empty one ends the shell. The 22nd field of /proc/PID/stat is the start in clock
# ticks since boot; the shell's own messages ("Killed") are not the command's output.
COMMAND_SCRIPT = """
exec 3>&2 2>/dev/null
read -r mark
read -r stat </proc/$$/stat
started() { shift 19; echo "$mark $$ $1"; }
started ${stat##*) }
if command -v bash >/dev/null; then shell=bash; else shell=sh; fi
newline='
'
read -r blocks input command && [ "$blocks" ] || exit 1
eval "command=$command"
echo "$mark"
(exec 2>&3 3>&-; [ "$input" = live ] || exec </dev/null; ulimit -f "$blocks"; exec "$shell" -c "$command")
code=$?
echo "$mark $code"
echo "$mark $code" >&3
"""
# $1 start of the command in ticks, the rest: processes of other commands, which are spared with their descendants.
# It uses only shell builtins: there may be no process left to fork. Victims are stopped until none runs, since a
# stopped process cannot fork, and then killed. Exit code 0 means that none is left, which is also the case if the
# container has restarted since the command: all its processes are then younger.
KILL_SCRIPT = """
since=$1; shift
spared=" $$ 1 $* "
field() { state=$1; parent=$2; shift 19; start=$1; }
read -r stat </proc/1/stat
field ${stat##*) }
[ "$start" -le "$since" ] || exit 0
look() {
    pids=; victims=; awake=
    for path in /proc/[0-9]*; do
        pid=${path#/proc/}; stat=
        while read -r line; do stat="$stat $line"; done 2>/dev/null <"$path/stat" || continue
        [ -n "$stat" ] || continue
        field ${stat##*) }
        eval "parent_$pid=$parent start_$pid=$start"
        case $state in Z|X) ;; *) pids="$pids $pid"; eval "state_$pid=$state" ;; esac
    done
    for pid in $pids; do
        top=$pid
        while eval "parent=\\${parent_$top:-0}"; [ "$parent" -gt 1 ] && eval "[ -n \\"\\${start_$parent:-}\\" ]"; do
            case $spared in *" $top "*) break ;; esac
            top=$parent
        done
        case $spared in *" $top "*) continue ;; esac
        eval "start=\\$start_$top state=\\$state_$pid"
        [ "$start" -ge "$since" ] || continue
        victims="$victims $pid"
        case $state in T|t) ;; *) awake="$awake $pid" ;; esac
    done
}
for round in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    look
    [ -n "$awake" ] || break
    kill -STOP $awake 2>/dev/null
done
for round in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    look
    [ -n "$victims" ] || exit 0
    kill -KILL $victims 2>/dev/null
done
exit 1
"""
# Put before every script: prints its exit code after a mark.
SCRIPT_HEAD = """cleanup() { :; }
trap 'code=$?; cleanup; echo "MARK $code"' EXIT
"""

SILENCE_S = 120.0
"""Seconds an internal script may be silent; writing the largest accepted file takes a few."""


@dataclass(frozen=True, slots=True)
class Begun:
    """The wrapping script's process in the container and its start in clock ticks since boot."""

    pid: int
    ticks: int


class Marks:
    """Removes the wrapping script's marks from one stream. `feed` returns the command's own output."""

    LONGEST = 64
    """Maximum characters after a mark; a longer line is the command's own output."""

    def __init__(self, mark: bytes) -> None:
        self._mark = mark
        self._held = b""
        self.begun: Begun | None = None
        self.has_command = False
        """Whether the script has read the command."""
        self.exit_code: int | None = None

    def feed(self, data: bytes) -> bytes:
        data, self._held = self._held + data, b""
        output = bytearray()
        while True:
            before, mark, after = data.partition(self._mark)
            if not mark:
                kept = self._partial_mark(data)
                output += data[: len(data) - kept]
                self._held = data[len(data) - kept :]
                return bytes(output)
            output += before
            line, newline, rest = after.partition(b"\n")
            if not newline and len(line) <= self.LONGEST:
                self._held = mark + after
                return bytes(output)
            if not (newline and self._understood(line)):
                output += mark
                rest = after
            data = rest

    def close(self) -> bytes:
        """Returns held-back bytes that turned out to be output."""
        held, self._held = self._held, b""
        return held

    def _understood(self, line: bytes) -> bool:
        words = line.split()
        if not all(word.isdigit() for word in words) or len(line) > self.LONGEST:
            return False
        if len(words) == 2 and self.begun is None:
            self.begun = Begun(int(words[0]), int(words[1]))
        elif not words and not self.has_command:
            self.has_command = True
        elif len(words) == 1:
            self.exit_code = int(words[0])
        else:
            return False
        return True

    def _partial_mark(self, data: bytes) -> int:
        longest = min(len(data), len(self._mark) - 1)
        return next((size for size in range(longest, 0, -1) if data.endswith(self._mark[:size])), 0)


@asynccontextmanager
async def attached(engine: Engine, execution: aiodocker.execs.Exec) -> AsyncIterator[ExecStream]:
    """Starts a command, with a connection to its input and output."""
    stream: ExecStream = execution.start()
    try:
        async with engine.answering():
            await stream.__aenter__()
        yield stream
    finally:
        connection = stream._resp.connection if stream._resp is not None else None
        if connection is not None:
            # a plain close would wait forever to send unread input
            if connection.transport is not None:
                connection.transport.abort()
            await stream.close()


@asynccontextmanager
async def feeding(stream: ExecStream, data: bytes, live: LiveInput | None = None) -> AsyncIterator[None]:
    """Feeds a command its input while its output is read: `data`, then what is written later."""
    feeding = asyncio.create_task(_feed(stream, data, live))
    try:
        yield
    finally:
        feeding.cancel()
        await asyncio.wait({feeding})


async def _feed(stream: ExecStream, data: bytes, live: LiveInput | None) -> None:
    # a command may end without reading all of its input
    with suppress(ConnectionError, aiodocker.DockerError):
        for start in range(0, len(data), 64 * 1024):
            await stream.write_in(data[start : start + 64 * 1024])
        while live is not None and (piece := await live.next()) is not None:
            await stream.write_in(piece)
        connection = stream._resp.connection if live is not None and stream._resp is not None else None
        if connection is not None and connection.transport is not None and connection.transport.can_write_eof():
            connection.transport.write_eof()


async def run_script(
    engine: Engine,
    container: str,
    script: str,
    arguments: Sequence[str],
    *,
    stdin: bytes | None = None,
    limit: int = 1024 * 1024,
) -> tuple[int, bytes, bytes]:
    """Runs an internal shell script in a container; returns its exit code (137 if it was killed), output and messages.

    `cleanup`, if the script defines such a function, is called when it exits. Raises `SandboxError` if the script
    cannot run or prints more than `limit` bytes.
    """
    code, output, messages = await run_in_pieces(engine, container, script, arguments, stdin=stdin, limit=limit)
    return code, b"".join(output), messages


async def run_in_pieces(
    engine: Engine,
    container: str,
    script: str,
    arguments: Sequence[str],
    *,
    stdin: bytes | None = None,
    limit: int,
) -> tuple[int, list[bytes], bytes]:
    """The same, with the output as it came: joining many megabytes of it takes milliseconds of the event loop."""
    mark = secrets.token_hex(16)
    argv = ["/bin/sh", "-c", SCRIPT_HEAD.replace("MARK", mark) + script, "palimpsest", *arguments]
    marks, messages = Marks(mark.encode()), bytearray()
    output: list[bytes] = []
    size = 0
    with translated_refusals(), engine.translated():
        async with engine.answering():
            execution = await engine.container(container).exec(argv, stdin=stdin is not None)
        async with (
            attached(engine, execution) as stream,
            feeding(stream, stdin or b""),
            engine.answering(SILENCE_S) as heard,
        ):
            # waiting for the stream's end would take too long: the Engine delays it for seconds if another
            # command has left a background process
            while marks.exit_code is None and (message := await stream.read_out()) is not None:
                heard()
                size += len(message.data)
                if size > limit:
                    raise SandboxError("The sandbox returned more data than requested.")
                if message.stream == 1:
                    output.append(marks.feed(message.data))
                else:
                    messages += message.data
    return (137 if marks.exit_code is None else marks.exit_code), output, bytes(messages)
