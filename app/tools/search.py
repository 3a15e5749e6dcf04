"""`search_files`: a search that runs in the sandbox, where a hostile pattern can cost no more than its timeout."""

from __future__ import annotations

import re
from dataclasses import dataclass
from shlex import quote
from typing import ClassVar

from pydantic import Field

from app.errors import InvalidRequestError, ToolError
from app.messages import ToolStatus
from app.sandbox.base import ExecResult, Sandbox, Stream
from app.sandbox.paths import resolve
from app.tools.base import Arguments, ToolContext, ToolOutcome
from app.tools.files import file_exists
from app.tools.text import CleanText, WorkspacePath, escape_name

MAX_MATCHES = 200
MAX_LINE_CHARS = 500
MAX_OUTPUT_BYTES = 2 * 1024 * 1024
"""Where a search's raw output is cut inside the sandbox: a single line may have any length."""

MAX_ERROR_BYTES = 4096

MAX_FILE_MB = 64
"""Larger files are skipped and named: engines hold a whole line in memory, and one that exhausts the sandbox's memory
ends the search of all files."""
_LEFT_OUT_SHOWN = 5

_BAD_PATTERN, _NO_ENGINE, _TOO_LARGE = 4, 5, 6

# One script for bash, dash and busybox. It prints its engine and the files that are too large, each after a NUL, tries
# the pattern on an empty line, then searches. An entry is `path NUL line : text`; busybox has no `-Z`, so there it is
# `path : line : text`. Names with a line break are skipped, since they could fake an entry. busybox searches binary
# files too, hence the second look at a file. rg needs no find; without find no large file is named.
_SCRIPT = r"""
LC_ALL=C.UTF-8; export LC_ALL
if command -v rg >/dev/null 2>&1; then engine=rg
elif ! command -v find >/dev/null 2>&1 || ! command -v grep >/dev/null 2>&1; then
  echo 'neither rg nor find and grep are installed in this sandbox' >&2; exit {no_engine}
elif echo x | grep -qP x 2>/dev/null; then engine=perl
elif echo x | grep -qZ x 2>/dev/null; then engine=posix
else engine=busybox; fi
echo $engine
if command -v find >/dev/null 2>&1; then large=$({find} -size +{blocks} -print | head -n {left_out}); fi
if [ -n "$large" ]; then
  [ -d {root} ] || exit {too_large}
  printf '%s\n' "$large" | while IFS= read -r file; do printf '\000%s\n' "$file"; done
fi
echo | case $engine in
  rg) {rg} -e {pattern} - ;;
  perl) grep -P -e {pattern} ;;
  *) grep -E -e {pattern} ;;
esac >/dev/null
[ $? -le 1 ] || exit {bad_pattern}
case $engine in
  rg) {rg} -e {pattern} -- {root} ;;
  perl) {find} ! -size +{blocks} -exec grep -HnIZP -e {pattern} {{}} + ;;
  posix) {find} ! -size +{blocks} -exec grep -HnIZE -e {pattern} {{}} + ;;
  *) {find} ! -size +{blocks} -exec grep -lE -e {pattern} {{}} + | while IFS= read -r file; do
       [ "$(head -c 8000 "$file" | tr -dc '\000' | wc -c)" -eq 0 ] && grep -HnE -e {pattern} "$file"
     done ;;
esac | head -n {lines} | head -c {bytes}
exit 0
"""


@dataclass(frozen=True, slots=True)
class Match:
    path: str
    line: int
    text: str

    def __str__(self) -> str:
        text = self.text if len(self.text) <= MAX_LINE_CHARS else f"{self.text[:MAX_LINE_CHARS]}…"
        return f"{escape_name(self.path)}:{self.line}:{text}"


@dataclass(frozen=True, slots=True)
class Found:
    """What a search printed: its engine's name, the first files that were too large for it, and the matches."""

    engine: str
    left_out: list[str]
    matches: list[Match]


class Collected:
    """Bounded copies of a search's stdout and stderr."""

    def __init__(self) -> None:
        self.streams: dict[Stream, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}

    def add(self, stream: Stream, data: bytes) -> None:
        limit = MAX_OUTPUT_BYTES + 1024 if stream == "stdout" else MAX_ERROR_BYTES
        room = limit - len(self.streams[stream])
        self.streams[stream] += data[: max(0, room)]

    @property
    def error(self) -> str:
        return self.streams["stderr"].decode("utf-8", "replace").strip()

    def parse(self) -> Found:
        engine, _, found = bytes(self.streams["stdout"]).partition(b"\n")
        left_out = []
        while found.startswith(b"\x00"):
            path, _, found = found[1:].partition(b"\n")
            left_out.append(_shown_path(path))
        matches = parse_matches(found, b":" if engine == b"busybox" else b"\x00")
        return Found(engine.decode("ascii", "replace"), left_out, matches)


def parse_matches(output: bytes, separator: bytes) -> list[Match]:
    """The entries of an engine's output, as `path separator line : text`; other lines are remarks and dropped."""
    entry = re.compile(rb"(.+?)" + re.escape(separator) + rb"(\d+):(.*)", re.DOTALL)
    found = (entry.fullmatch(line.rstrip(b"\r")) for line in output.split(b"\n"))
    return [
        Match(_shown_path(match[1]), int(match[2]), match[3].decode("utf-8", "replace")) for match in found if match
    ]


def search_script(pattern: str, root: str, globs: list[str]) -> str:
    """The shell script of one search; `root` is `.` or begins with `./`."""
    broken_name = f"*{chr(10)}*"
    # The last glob that matches wins.
    globbed = "".join(f" --glob {quote(glob)}" for glob in [*globs, "!.git", f"!{broken_name}"])
    rg = (
        "rg --no-config --no-ignore --hidden --null --line-number --no-heading --with-filename --color never "
        f"--sort path --max-filesize {MAX_FILE_MB}M --max-columns 2000 --max-columns-preview{globbed}"
    )
    names = " -o ".join(f"-name {quote(glob)}" for glob in globs)
    find = rf"find -H {quote(root)} \( -name .git -o -name {quote(broken_name)} \) -prune -o -type f"
    return _SCRIPT.format(
        rg=rg,
        find=rf"{find} \( {names} \)" if names else find,
        pattern=quote(pattern),
        root=quote(root),
        lines=MAX_MATCHES + 1,
        bytes=MAX_OUTPUT_BYTES,
        blocks=MAX_FILE_MB * 2048,
        left_out=_LEFT_OUT_SHOWN + 1,
        bad_pattern=_BAD_PATTERN,
        no_engine=_NO_ENGINE,
        too_large=_TOO_LARGE,
    )


def expand_glob(glob: str) -> list[str]:
    """A glob of file names without its alternatives in braces, which find does not support: `*.{py,pyi}` becomes two.
    Raises `ToolError` for one that names folders or excludes files."""
    name = glob.removeprefix("**/")
    if "/" in name or name.startswith("!"):
        raise ToolError("glob matches file names, such as *.py or *.{ts,tsx}; give the folder as path.")
    match = re.fullmatch(r"([^{}]*)\{([^{}]*)\}([^{}]*)", name)
    if match is None:
        return [name]
    return [f"{match[1]}{alternative}{match[3]}" for alternative in match[2].split(",")]


async def search_root(sandbox: Sandbox, path: str) -> str:
    """The file or directory to search, relative to the workspace and safe for a command line. Raises what the sandbox
    raises for a path that leaves the workspace or does not exist."""
    path = "/".join(resolve(path)) or "."
    try:
        await sandbox.list(path, limit=1)
    except InvalidRequestError:
        await file_exists(sandbox, path)
    return "." if path == "." else f"./{path}"


class SearchFilesArguments(Arguments):
    pattern: CleanText = Field(
        min_length=1, max_length=2000, description="Regular expression for a line; (?i) ignores case."
    )
    path: WorkspacePath = Field(default=".", description="Directory or file.")
    glob: CleanText | None = Field(
        default=None, min_length=1, max_length=200, description="Only files named like *.py or *.{ts,tsx}."
    )


class SearchFiles:
    name: ClassVar[str] = "search_files"
    description: ClassVar[str] = (
        f"Searches file contents and returns path:line:text of matching lines, at most {MAX_MATCHES}; .git and binary "
        "files are left out."
    )
    parallel_safe: ClassVar[bool] = True
    arguments: type[Arguments] = SearchFilesArguments

    async def run(self, args: SearchFilesArguments, context: ToolContext) -> ToolOutcome:
        """Uses rg if the sandbox has it, else find and grep (Perl's syntax if it is built in, else POSIX)."""
        if "\n" in args.pattern:
            raise ToolError("The pattern cannot contain a line break: files are searched line by line.")
        globs = expand_glob(args.glob) if args.glob else []
        sandbox = await context.sandbox()
        script = search_script(args.pattern, await search_root(sandbox, args.path), globs)
        collected = Collected()
        result = await sandbox.exec(script, timeout_s=context.command_timeout_s, on_output=collected.add)
        _refuse_failure(result, collected.error)
        found = collected.parse()
        shown = sorted(found.matches[:MAX_MATCHES], key=lambda match: (match.path, match.line))
        context.output.write("stdout", "".join(f"{match}\n" for match in shown).encode())
        cut = len(found.matches) > MAX_MATCHES or len(collected.streams["stdout"]) >= MAX_OUTPUT_BYTES
        status = ToolStatus.ERROR if result.timed_out else ToolStatus.COMPLETED
        notes = [
            _extent_note(result, context, found.engine, len(shown), cut),
            _left_out_note(found.left_out),
            f"[the search reported: {collected.error[:MAX_LINE_CHARS]}]" if collected.error and not cut else "",
        ]
        return ToolOutcome(status=status, note="\n".join(filter(None, notes)))


def _shown_path(path: bytes) -> str:
    return path.removeprefix(b"./").decode("utf-8", "surrogateescape")


def _refuse_failure(result: ExecResult, error: str) -> None:
    if result.timed_out or result.exit_code == 0:
        return
    if result.exit_code == _BAD_PATTERN:
        raise ToolError(f"The search engine refused the pattern or glob: {error}")
    if result.exit_code == _TOO_LARGE:
        raise ToolError(f"The file is larger than {MAX_FILE_MB} MiB; search it with execute_command.")
    how = f"was {result.remark}" if result.exit_code is None else f"failed with exit code {result.exit_code}"
    raise ToolError(f"The search {how}: {error or 'no message'}")


def _extent_note(result: ExecResult, context: ToolContext, engine: str, shown: int, cut: bool) -> str:
    notes = []
    if cut:
        notes.append(f"[there are more than these {shown} matches; narrow the search by path, glob or pattern]")
    if result.timed_out:
        notes.append(f"[timed out after {context.command_timeout_s:g} s; narrow the search by path or glob]")
    elif not shown:
        posix = engine in ("posix", "busybox")
        notes.append("[no match]" + (" [POSIX syntax: \\d is not known here, write [0-9]]" if posix else ""))
    return "\n".join(notes)


def _left_out_note(left_out: list[str]) -> str:
    if not left_out:
        return ""
    names = ", ".join(map(escape_name, left_out[:_LEFT_OUT_SHOWN]))
    more = " and others" if len(left_out) > _LEFT_OUT_SHOWN else ""
    return f"[not searched, larger than {MAX_FILE_MB} MiB: {names}{more}; use execute_command for them]"
