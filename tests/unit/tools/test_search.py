from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from app.errors import ForbiddenError, NotFoundError, ToolError
from app.messages import ToolStatus
from app.tools.search import (
    MAX_FILE_MB,
    MAX_LINE_CHARS,
    MAX_MATCHES,
    Collected,
    Match,
    SearchFiles,
    SearchFilesArguments,
    expand_glob,
    parse_matches,
    search_script,
)
from tests.unit.tools.engines import shell_command, tools_directory
from tests.unit.tools.workbench import DirectorySandbox, Workbench

search = SearchFiles()
ENGINES = ("rg", "perl", "posix", "busybox")


def bench_with(tmp_path: Path, shell: str, engine: str) -> Workbench:
    root = tmp_path / "workspace"
    root.mkdir()
    path = tools_directory(tmp_path / "bin", engine)
    return Workbench(DirectorySandbox(root, shell_command(shell), {"PATH": str(path)}), root)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def workbench(tmp_path: Path, engine: str) -> Workbench:
    return bench_with(tmp_path, "busybox" if engine == "busybox" else "dash", engine)


def fill(root: Path, files: dict[str, str | bytes]) -> None:
    for name, content in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)


class TestEveryEngine:
    async def test_matches_have_path_line_and_text_in_order(self, workbench: Workbench) -> None:
        fill(
            workbench.root,
            {
                "b.py": "x\nneedle two\n",
                "a dir/a.py": "needle: one\r\n",
                ".hidden": "needle\n",
                ".gitignore": "b.py\n",
                ".git/config": "needle\n",
                "sub/.git/x": "needle\n",
                "bin": b"\x00needle\n",
                "other": "nothing\n",
            },
        )
        text, outcome = await workbench.run(search, pattern="needle")
        assert text == ".hidden:1:needle\na dir/a.py:1:needle: one\nb.py:2:needle two\n"
        assert (outcome.status, outcome.note) == (ToolStatus.COMPLETED, "")

    async def test_path_and_glob_narrow_it(self, workbench: Workbench) -> None:
        fill(workbench.root, dict.fromkeys(["a.py", "src/b.py", "src/b.ts", "src/deep/c.py", "-d/e.py"], "x = 1\n"))
        assert (await workbench.run(search, pattern="x", path="src", glob="*.py"))[0] == (
            "src/b.py:1:x = 1\nsrc/deep/c.py:1:x = 1\n"
        )
        assert (await workbench.run(search, pattern="x", glob="b.{py,ts}"))[0] == (
            "src/b.py:1:x = 1\nsrc/b.ts:1:x = 1\n"
        )
        assert (await workbench.run(search, pattern="x", path="/workspace/a.py"))[0] == "a.py:1:x = 1\n"
        assert (await workbench.run(search, pattern="x", path="-d"))[0] == "-d/e.py:1:x = 1\n"

    async def test_regular_expressions(self, workbench: Workbench) -> None:
        fill(workbench.root, {"a": "one1\ntwo22\nété\n(x)\n"})
        for pattern, line in [("^two[0-9]+$", 2), ("o(n|x)e", 1), ("^été$", 3), (r"\(x\)", 4)]:
            assert (await workbench.run(search, pattern=pattern))[0].startswith(f"a:{line}:"), pattern

    async def test_no_match_is_reported(self, workbench: Workbench, engine: str) -> None:
        fill(workbench.root, {"a": "b\n"})
        text, outcome = await workbench.run(search, pattern="zzz")
        assert text == ""
        assert outcome.note.startswith("[no match]")
        assert ("POSIX" in outcome.note) == (engine in ("posix", "busybox"))
        text, outcome = await workbench.run(search, pattern="b", glob="*.py")
        assert (text, outcome.status) == ("", ToolStatus.COMPLETED)

    async def test_an_invalid_pattern_is_a_clear_error(self, workbench: Workbench) -> None:
        fill(workbench.root, {"a": "b\n"})
        with pytest.raises(ToolError, match=r"refused the pattern or glob: \S"):
            await workbench.run(search, pattern="(unclosed")

    @pytest.mark.parametrize(
        "pattern",
        [
            "-e",
            "--help",
            "$(touch owned)",
            "`touch owned`",
            "'; touch owned; '",
            '" ; touch owned "',
            "{pattern}",
            "a b",
        ],
    )
    async def test_a_pattern_is_never_interpreted_by_the_shell(self, workbench: Workbench, pattern: str) -> None:
        literal = "".join(f"[{c}]" if c not in "$()" else f"\\{c}" for c in pattern)
        fill(workbench.root, {"a": f"{pattern}\nelse\n"})
        for written in (literal, pattern):
            try:
                text, _ = await workbench.run(search, pattern=written)
            except ToolError:
                assert written is pattern, "a pattern of brackets is valid"
                continue
            assert text in ("", f"a:1:{pattern}\n")
            assert text or written is pattern
        assert os.listdir(workbench.root) == ["a"]

    async def test_a_glob_is_never_interpreted_by_the_shell(self, workbench: Workbench) -> None:
        fill(workbench.root, {"a": "b\n"})
        for glob in ["$(touch owned)", "'; touch owned; '", "-delete", "--pre=touch"]:
            text, _ = await workbench.run(search, pattern="b", glob=glob)
            assert text == ""
        assert os.listdir(workbench.root) == ["a"]

    async def test_links_in_a_path_are_followed(self, workbench: Workbench) -> None:
        fill(workbench.root, {"d/sub/a": "needle\n", "d/b": "needle\n"})
        (workbench.root / "dir").symlink_to("d")
        (workbench.root / "file").symlink_to("d/b")
        for path in ("dir", "file", "dir/sub"):
            text, _ = await workbench.run(search, pattern="needle", path=path)
            assert {line.partition(":")[0] for line in text.splitlines()} == {
                "dir": {"dir/b", "dir/sub/a"},
                "file": {"file"},
                "dir/sub": {"dir/sub/a"},
            }[path]

    async def test_links_to_the_outside_are_not_followed(self, workbench: Workbench) -> None:
        outside = workbench.root.parent / "outside"
        fill(outside, {"secret": "needle\n"})
        (workbench.root / "dir").symlink_to(outside)
        (workbench.root / "file").symlink_to(outside / "secret")
        assert (await workbench.run(search, pattern="needle"))[0] == ""
        for path in ("dir", "file", "dir/secret"):
            with pytest.raises(ForbiddenError):
                await workbench.run(search, pattern="needle", path=path)

    async def test_no_name_can_fake_a_match(self, workbench: Workbench) -> None:
        fill(
            workbench.root,
            {
                "x\nfake.py:9:lie": "needle\n",
                "d\nfake.py:9:lie/y": "needle\n",
                "\x1b[2J": "needle\n",
                "back\\slash": "needle\n",
            },
        )
        text, _ = await workbench.run(search, pattern="needle")
        assert text == "\\x1b[2J:1:needle\nback\\\\slash:1:needle\n"

    async def test_many_matches_are_cut_with_a_note(self, workbench: Workbench) -> None:
        fill(workbench.root, {"a": "needle\n" * MAX_MATCHES})
        text, outcome = await workbench.run(search, pattern="needle")
        assert (len(text.splitlines()), outcome.note) == (MAX_MATCHES, "")
        fill(workbench.root, {"b": "needle\n" * 100_000})
        text, outcome = await workbench.run(search, pattern="needle")
        assert len(text.splitlines()) == MAX_MATCHES
        assert outcome.note == ("[there are more than these 200 matches; narrow the search by path, glob or pattern]")

    async def test_long_lines_are_clipped(self, workbench: Workbench) -> None:
        fill(workbench.root, {"a": "needle" + "x" * 5_000_000 + "\n", "b": "y" * 600 + "needle\n"})
        text, _ = await workbench.run(search, pattern="needle", path="b")
        assert text == f"b:1:{'y' * MAX_LINE_CHARS}…\n"
        text, _ = await workbench.run(search, pattern="needle", path="a")
        assert text == f"a:1:needle{'x' * (MAX_LINE_CHARS - 6)}…\n"

    async def test_huge_files_are_named_instead_of_searched(self, workbench: Workbench) -> None:
        fill(workbench.root, {"a": "needle\n", "z": "needle\n", "huge\\n": "needle\n", "huge.py": "needle\n"})
        for name in ("huge\\n", "huge.py"):
            os.truncate(workbench.root / name, MAX_FILE_MB * 2**20 + 1)
        text, outcome = await workbench.run(search, pattern="needle")
        assert text == "a:1:needle\nz:1:needle\n"
        assert sorted(outcome.note.removeprefix("[not searched, larger than 64 MiB: ").split("; ")[0].split(", ")) == [
            "huge.py",
            "huge\\\\n",
        ]
        _, outcome = await workbench.run(search, pattern="needle", glob="*.py")
        assert outcome.note.endswith("[not searched, larger than 64 MiB: huge.py; use execute_command for them]")
        with pytest.raises(ToolError, match="larger than 64 MiB"):
            await workbench.run(search, pattern="needle", path="huge.py")

    async def test_a_few_of_many_huge_files_are_named(self, workbench: Workbench) -> None:
        for number in range(7):
            fill(workbench.root, {f"huge{number}": "needle\n"})
            os.truncate(workbench.root / f"huge{number}", MAX_FILE_MB * 2**20 + 1)
        text, outcome = await workbench.run(search, pattern="needle")
        assert text == ""
        assert (outcome.note.count("huge"), " and others; " in outcome.note) == (5, True)

    async def test_an_empty_workspace(self, workbench: Workbench) -> None:
        assert (await workbench.run(search, pattern="x"))[1].note.startswith("[no match]")


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox"])
@pytest.mark.parametrize("engine_name", ["rg", "perl", "posix"])
async def test_every_shell_runs_every_engine(tmp_path: Path, shell: str, engine_name: str) -> None:
    bench = bench_with(tmp_path, shell, engine_name)
    fill(bench.root, {"it's/a.py": "say 'needle'\n"})
    text, outcome = await bench.run(search, pattern="say 'n", path="it's", glob="*.py")
    assert (text, outcome.note) == ("it's/a.py:1:say 'needle'\n", "")
    with pytest.raises(ToolError, match="refused the pattern"):
        await bench.run(search, pattern="[")


async def test_without_find_huge_files_are_skipped_unnamed(tmp_path: Path) -> None:
    bench = bench_with(tmp_path, "dash", "rg alone")
    fill(bench.root, {"a": "needle\n", "huge": "needle\n"})
    os.truncate(bench.root / "huge", MAX_FILE_MB * 2**20 + 1)
    text, outcome = await bench.run(search, pattern="needle")
    assert (text, outcome.note) == ("a:1:needle\n", "")


async def test_without_an_engine_the_error_names_the_requirements(tmp_path: Path) -> None:
    bench = bench_with(tmp_path, "dash", "none")
    with pytest.raises(ToolError, match="neither rg nor find and grep"):
        await bench.run(search, pattern="x")


async def test_a_pattern_with_line_breaks_is_refused(bench: Workbench) -> None:
    with pytest.raises(ToolError, match="line break"):
        await bench.run(search, pattern="a\nb")


@pytest.mark.parametrize(
    ("path", "error"),
    [("..", ForbiddenError), ("/etc", ForbiddenError), ("a/../../x", ForbiddenError), ("missing", NotFoundError)],
)
async def test_paths_outside_or_missing_are_refused(bench: Workbench, path: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        await bench.run(search, pattern="x", path=path)


async def test_an_endless_search_costs_its_timeout(tmp_path: Path) -> None:
    bench = bench_with(tmp_path, "dash", "posix")
    slow = Workbench(bench.sandbox, bench.root, timeout_s=0.5)
    fill(bench.root, {"a": "a" * 3000 + "\n"})
    _, outcome = await slow.run(search, pattern=r"^(.+)(.+)(.+)(.+)\4\3\2\1$")
    assert outcome.status is ToolStatus.ERROR
    assert outcome.note == "[timed out after 0.5 s; narrow the search by path or glob]"


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
async def test_unreadable_files_are_reported(tmp_path: Path) -> None:
    bench = bench_with(tmp_path, "dash", "perl")
    fill(bench.root, {"a": "needle\n", "closed": "needle\n"})
    (bench.root / "closed").chmod(0)
    text, outcome = await bench.run(search, pattern="needle")
    assert text == "a:1:needle\n"
    assert "closed: Permission denied" in outcome.note


async def test_remarks_of_the_engine_reach_the_model(tmp_path: Path) -> None:
    bench = bench_with(tmp_path, "dash", "perl")
    fill(bench.root, {"a": "needle\n" + "a" * 50_000 + "\n"})
    text, outcome = await bench.run(search, pattern="needle|(a|aa)+$x")
    assert text == "a:1:needle\n"
    assert "[the search reported: grep: " in outcome.note


class TestGlobs:
    @pytest.mark.parametrize(
        ("glob", "names"),
        [
            ("*.py", ["*.py"]),
            ("**/*.py", ["*.py"]),
            ("*.{ts,tsx}", ["*.ts", "*.tsx"]),
            ("{a,b}*", ["a*", "b*"]),
            ("{a{b,c}}", ["{a{b,c}}"]),
        ],
    )
    def test_expansion(self, glob: str, names: list[str]) -> None:
        assert expand_glob(glob) == names

    @pytest.mark.parametrize("glob", ["src/*.py", "/etc/*", "!*.py", "a/**/b"])
    def test_folders_and_exclusions_are_refused(self, glob: str) -> None:
        with pytest.raises(ToolError, match="matches file names"):
            expand_glob(glob)


class TestParsing:
    @given(st.lists(st.tuples(st.text("ab:1.", min_size=1), st.integers(1, 999), st.text("x:\x000 1"))))
    def test_entries_are_parsed_back(self, entries: list[tuple[str, int, str]]) -> None:
        output = "".join(f"{path}\x00{line}:{text}\n" for path, line, text in entries).encode()
        assert parse_matches(output, b"\x00") == [Match(*entry) for entry in entries]

    def test_remarks_are_dropped(self) -> None:
        assert parse_matches(b"grep: a: binary file matches\na\x001:x\n\nWARNING\n", b"\x00") == [Match("a", 1, "x")]

    @settings(suppress_health_check=[HealthCheck.too_slow])
    @given(st.text(min_size=1, max_size=50), st.text(min_size=1, max_size=20))
    def test_a_script_can_be_made_from_any_text(self, pattern: str, glob: str) -> None:
        script = search_script(pattern, "./a'b {root}", [glob])
        assert "{root}" in script
        assert "{lines}" not in script.replace(pattern, "").replace(glob, "")

    def test_collected_output_is_bounded(self) -> None:
        collected = Collected()
        for _ in range(100):
            collected.add("stdout", b"x" * 100_000)
            collected.add("stderr", b"e" * 100_000)
        assert len(collected.streams["stdout"]) < 2_200_000
        assert len(collected.error) == 4096


@pytest.mark.parametrize("arguments", [{"pattern": ""}, {"pattern": "x" * 2001}, {"pattern": "x", "path": "a\x00"}, {}])
def test_invalid_arguments_are_refused(arguments: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        SearchFilesArguments.model_validate(arguments)
