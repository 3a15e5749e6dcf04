"""Files of the workspace, from the service's side, in every kind of sandbox."""

from __future__ import annotations

import io
import tarfile
from contextlib import suppress

import pytest

from app.errors import ForbiddenError, InvalidRequestError, NotFoundError, PalimpsestError, TooLargeError
from tests.unit.sandbox.shell import Shell

NAMES = [
    "plain.txt",
    "with space",
    "-n",
    "--help",
    "new\nline",
    "tab\tand\x07bell",
    "quote'\"`$(id)",
    "日本語-é",
    "back\\slash",
    "*?[a]",
    "a" * 255,
    "deep/er/and/deeper/file",
    "%41+&=?#",
]


@pytest.mark.parametrize("name", NAMES)
async def test_a_file_comes_back_under_its_name(shell: Shell, name: str) -> None:
    data = name.encode() + bytes(range(256))
    await shell.sandbox.write(name, data)
    assert await shell.sandbox.read(name) == data
    assert await shell.sandbox.read(f"/workspace/./{name}") == data
    listed = await shell.sandbox.list(recursive=True)
    assert [(info.path, info.size) for info in listed if info.type == "file"] == [(name, len(data))]


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 70_000, 3_000_000])
async def test_bytes_are_kept(shell: Shell, size: int) -> None:
    data = (bytes(range(256)) * (size // 256 + 1))[:size]
    await shell.sandbox.write("data", data)
    assert await shell.sandbox.read("data") == data
    assert await shell.sandbox.read("data", max_bytes=size) == data
    assert (await shell.run("cat data | wc -c")).out.strip() == str(size)


async def test_what_is_written_belongs_to_the_user(shell: Shell) -> None:
    await shell.sandbox.write("dir/file", b"1")
    ran = await shell.run("echo 2 >> dir/file && touch dir/new && mv dir/file dir/moved && cat dir/moved && rm -r dir")
    assert (ran.out, ran.code) == ("12\n", 0)


async def test_writing_keeps_permissions_and_replaces_the_file(shell: Shell) -> None:
    """An open reader keeps the old file: the new one took its place and was not written over it."""
    await shell.sandbox.write("script", b"echo old\n")
    await shell.run("chmod 755 script; ln script other-name")
    await shell.sandbox.write("script", b"echo new\n")
    assert (await shell.run("./script; cat other-name")).out == "new\necho old\n"
    assert [info.path for info in await shell.sandbox.list()] == ["other-name", "script"]


async def test_listing(shell: Shell) -> None:
    await shell.run("mkdir -p a/b; echo 12345 > a/f; ln -s a/f link; mkfifo pipe; touch -d @1700000000 a/b")
    infos = {info.path: info for info in await shell.sandbox.list(recursive=True)}
    assert {path: info.type for path, info in infos.items()} == {
        "a": "directory",
        "a/b": "directory",
        "a/f": "file",
        "link": "symlink",
        "pipe": "other",
    }
    assert infos["a/f"].size == 6
    assert infos["a/b"].modified == 1_700_000_000
    assert [info.path for info in await shell.sandbox.list()] == ["a", "link", "pipe"]
    assert [info.path for info in await shell.sandbox.list("/workspace/a")] == ["a/b", "a/f"]


async def test_a_listing_is_cut_at_its_limit(shell: Shell) -> None:
    await shell.run("i=0; while [ $i -lt 300 ]; do : > file$i; i=$((i+1)); done")
    assert len(await shell.sandbox.list(limit=7)) == 7
    assert len(await shell.sandbox.list()) == 300


async def test_names_that_are_not_utf8_can_be_listed(shell: Shell) -> None:
    await shell.run(
        "touch \"$(printf 'a\\377b')\" \"$(printf 'x\\ny 81a4 7 7 ./forged')\" 2>/dev/null; touch \"$(printf 'x\\ny')\""
    )
    assert [info.path for info in await shell.sandbox.list()] == ["a\ufffdb", "x\ny"]


LINKS_INSIDE = """
mkdir -p real/sub deep/er; echo one >real/file
ln -s real/file link; ln -s real dir; ln -s /workspace/real absolute; ln -s /workspace/./real/../real/file dotted
ln -s ../real deep/up; ln -s ../../link deep/er/chain; ln -s . self; ln -s deep/er/../up middle; ln -s //workspace top
"""
TO_THE_FILE = [
    *("link", "dir/file", "absolute/file", "dotted", "deep/up/file", "deep/er/chain", "self/self/link"),
    *("middle/file", "top/real/file", "/workspace/dir/file", "top/self/dir/sub/../file"),
]


async def test_links_inside_are_followed_and_stay(shell: Shell) -> None:
    await shell.run(LINKS_INSIDE)
    for number, path in enumerate(TO_THE_FILE):
        before = str(number - 1) if number else "one\n"
        assert await shell.sandbox.read(path) == before.encode(), path
        await shell.sandbox.write(path, str(number).encode())
    await shell.sandbox.write("deep/up/new/file", b"new")
    kept = "cat real/file real/new/file; for link in link dir absolute deep/up deep/er/chain; do readlink $link; done"
    shown = f"{len(TO_THE_FILE) - 1}newreal/file\nreal\n/workspace/real\n../real\n../../link\n"
    assert (await shell.run(kept)).out == shown


async def test_a_linked_directory_is_listed_by_the_name_it_was_asked_for(shell: Shell) -> None:
    await shell.run("mkdir -p real/sub; touch real/sub/file; ln -s ../../real real/sub/self; ln -s real dir")
    listed = [(info.path, info.type) for info in await shell.sandbox.list("dir", recursive=True)]
    sub = [("dir/sub/file", "file"), ("dir/sub/self", "symlink")]
    assert listed == [("dir/sub", "directory"), *sub]
    assert [info.path for info in await shell.sandbox.list("dir/sub/self/sub")] == [
        f"dir/sub/self/sub/{name}" for name in ("file", "self")
    ]
    with pytest.raises(InvalidRequestError):
        await shell.sandbox.list("dir/sub/file")


LINKS_OUT = {
    "link": ("ln -s /etc/passwd link", "/etc/passwd"),
    "dir/passwd": ("ln -s /etc dir", "/etc"),
    "chain": ("ln -s middle chain; ln -s /etc/passwd middle", "/etc/passwd"),
    "a/up": ("mkdir a; ln -s ../../etc/passwd a/up", "etc/passwd"),
    "self/up": ("ln -s . self; ln -s .. up", ""),
    "similar": ("ln -s /workspaces/x similar", "/workspaces/x"),
}


@pytest.mark.parametrize("path", LINKS_OUT)
async def test_links_to_the_outside_are_refused(shell: Shell, path: str) -> None:
    script, target = LINKS_OUT[path]
    await shell.run(script)
    for attempt in (shell.sandbox.read(path), shell.sandbox.write(path, b"x"), shell.sandbox.list(path)):
        with pytest.raises(ForbiddenError) as refused:
            await attempt
        assert refused.value.code == "outside_workspace"
        assert "leads outside /workspace, through a link to " in refused.value.detail
        assert target in refused.value.detail


async def test_links_to_nothing_are_refused(shell: Shell) -> None:
    await shell.run("mkdir d; ln -s nowhere dangling; ln -s d/nowhere/else deep; ln -s dangling chain; ln -s d dir")
    for path in ("dangling", "deep", "chain", "dangling/x", "deep/x"):
        for attempt in (shell.sandbox.read(path), shell.sandbox.write(path, b"x"), shell.sandbox.list(path)):
            with pytest.raises(NotFoundError, match=r"leads through a link to '.*', which does not exist"):
                await attempt
    with pytest.raises(NotFoundError, match="There is no 'dir/x' in the workspace"):
        await shell.sandbox.read("dir/x")
    assert sorted(info.path for info in await shell.sandbox.list(recursive=True)) == [
        *("chain", "d", "dangling", "deep", "dir")
    ]


async def test_links_to_special_files_are_refused(shell: Shell) -> None:
    await shell.run("mkfifo pipe; ln -s pipe special; mkdir d; ln -s d dir")
    for path in ("special", "dir"):
        for attempt in (shell.sandbox.read(path), shell.sandbox.write(path, b"x")):
            with pytest.raises(InvalidRequestError) as refused:
                await attempt
            assert refused.value.code == "not_a_file", path
    with pytest.raises(InvalidRequestError) as refused:
        await shell.sandbox.read("special/x")
    assert refused.value.code == "not_a_directory"


async def test_links_that_cannot_be_followed_are_refused(shell: Shell) -> None:
    await shell.run("ln -s circle circle; ln -s b a; ln -s a b; touch f; ln -s f/x below")
    for path in ("circle", "a", "circle/x", "below"):
        for attempt in (shell.sandbox.read(path), shell.sandbox.write(path, b"x"), shell.sandbox.list(path)):
            with pytest.raises(PalimpsestError):
                await attempt


async def test_links_in_a_tree_are_not_followed(shell: Shell) -> None:
    await shell.run("ln -s /etc dir; mkdir real; ln -s /etc real/etc; ln -s . real/self")
    assert [info.path for info in await shell.sandbox.list(recursive=True)] == [
        *("dir", "real", "real/etc", "real/self")
    ]


@pytest.mark.parametrize(
    "path", ["..", "../x", "a/../../x", "/etc/passwd", "/", "/workspace/../etc/passwd", "/workspacex"]
)
async def test_paths_outside_are_refused(shell: Shell, path: str) -> None:
    for attempt in (shell.sandbox.read(path), shell.sandbox.write(path, b""), shell.sandbox.list(path)):
        with pytest.raises(ForbiddenError) as refused:
            await attempt
        assert refused.value.code == "outside_workspace"


async def test_reading_a_special_file_is_refused(shell: Shell) -> None:
    await shell.run("mkdir dir; mkfifo pipe")
    for path in ("dir", "pipe", ".", "/workspace"):
        for attempt in (shell.sandbox.read(path), shell.sandbox.write(path, b"")):
            with pytest.raises(InvalidRequestError) as refused:
                await attempt
            assert refused.value.code == "not_a_file"


async def test_listing_a_file_is_refused(shell: Shell) -> None:
    await shell.sandbox.write("file", b"x")
    for attempt in (shell.sandbox.list("file"), shell.sandbox.read("file/x"), shell.sandbox.write("file/x", b"")):
        with pytest.raises(InvalidRequestError) as refused:
            await attempt
        assert refused.value.code == "not_a_directory"


async def test_missing_files_are_not_found(shell: Shell) -> None:
    for attempt in (shell.sandbox.read("none"), shell.sandbox.read("no/where"), shell.sandbox.list("none")):
        with pytest.raises(NotFoundError) as refused:
            await attempt
        assert refused.value.code == "file_not_found"


@pytest.mark.parametrize("path", ["a\0b", "x" * 256, "x/" * 2500, "\udcff"])
async def test_an_impossible_path_is_refused(shell: Shell, path: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        await shell.sandbox.read(path)
    assert refused.value.code == "invalid_path"


async def test_a_large_file_is_not_read(shell: Shell) -> None:
    """The file is sparse and larger than the memory of most machines."""
    await shell.run("truncate -s 1099511627776 huge")
    with pytest.raises(TooLargeError):
        await shell.sandbox.read("huge", max_bytes=1000)
    await shell.sandbox.write("small", b"12345")
    with pytest.raises(TooLargeError) as refused:
        await shell.sandbox.read("small", max_bytes=4)
    assert refused.value.extra == {"size": 5, "limit": 4}


async def test_the_archive_holds_the_workspace(shell: Shell) -> None:
    long = "n" * 200 + "/" + "m" * 200
    await shell.sandbox.write("a/file", bytes(range(256)) * 300)
    await shell.sandbox.write(long, b"long")
    await shell.run("chmod 755 a/file; ln -s /etc/passwd link; mkfifo pipe; mkdir empty; touch \"$(printf 'b\\377')\"")
    data = b"".join([piece async for piece in shell.sandbox.archive()])
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        members = {member.name.removeprefix("./"): member for member in archive if member.name != "."}
        content = archive.extractfile(members["a/file"])
        assert content is not None
        assert content.read() == bytes(range(256)) * 300
    assert set(members) == {"a", "a/file", long.split("/")[0], long, "link", "empty", "b\udcff"}
    assert (members["link"].issym(), members["link"].linkname) == (True, "/etc/passwd")
    assert members["a/file"].mode & 0o777 == 0o755


async def test_an_empty_workspace_has_an_archive(shell: Shell) -> None:
    data = b"".join([piece async for piece in shell.sandbox.archive()])
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        assert [name for name in archive.getnames() if name != "."] == []


async def test_files_can_be_used_before_a_start_and_after_a_stop(shell: Shell) -> None:
    await shell.sandbox.write("early", b"1")
    await shell.sandbox.start()
    await shell.sandbox.stop()
    assert await shell.sandbox.read("early") == b"1"
    assert [info.path for info in await shell.sandbox.list()] == ["early"]
    await shell.sandbox.stop()
    assert (await shell.run("cat early")).out == "1"


async def test_a_removed_workspace_is_empty_or_gone_for_good(shell: Shell) -> None:
    await shell.sandbox.write("file", b"1")
    await shell.run("mkdir -p closed/inner && touch closed/inner/file && chmod 000 closed/inner closed")
    await shell.sandbox.remove()
    await shell.sandbox.remove()
    with suppress(NotFoundError):
        assert list(await shell.sandbox.list()) == []
    with pytest.raises(PalimpsestError):
        await shell.sandbox.read("file")
