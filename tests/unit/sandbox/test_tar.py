"""Archives: written piece by piece here, and filtered piece by piece where an Engine wrote them."""

from __future__ import annotations

import asyncio
import io
import os
import tarfile
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NoReturn

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from app.errors import SandboxError
from app.sandbox import tar


async def pieces_of(data: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def filtered(data: bytes, size: int) -> bytes:
    return b"".join([piece async for piece in tar.without_special_files(pieces_of(data, size))])


def members(data: bytes) -> dict[str, bytes | str]:
    found: dict[str, bytes | str] = {}
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:", errors="surrogateescape") as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isreg() else None
            found[member.name] = content.read() if content else member.linkname or "-"
    return found


def build(format_: int) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=format_) as archive:
        for kind in (tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE):
            special = tarfile.TarInfo("special" + "l" * 200 + kind.decode())
            special.type = kind
            archive.addfile(special)
        for name, content in (("short", b"1"), ("d/" * 100 + "long-é", b"x" * 1500), ("empty", b"")):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "t" * 150
        archive.addfile(link)
    return data.getvalue()


@pytest.mark.parametrize("size", [1, 511, 512, 4096, 10**6])
@pytest.mark.parametrize("format_", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
async def test_special_files_are_left_out(format_: int, size: int) -> None:
    assert members(await filtered(build(format_), size)) == {
        "short": b"1",
        "d/" * 100 + "long-é": b"x" * 1500,
        "empty": b"",
        "link": "t" * 150,
    }


def extension(kind: bytes, data: bytes) -> bytes:
    info = tarfile.TarInfo("extension")
    info.type, info.size = kind, len(data)
    return info.tobuf(tarfile.USTAR_FORMAT) + data + bytes(-len(data) % tar.BLOCK)


def linked(kind: bytes, name: bytes, target: bytes, size: int = 0) -> bytes:
    info = tarfile.TarInfo(os.fsdecode(name))
    info.type, info.linkname, info.size = kind, os.fsdecode(target), size
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


MEMBER = tarfile.TarInfo("member").tobuf(tarfile.GNU_FORMAT)
DIGITS = b"1" * 300_000
"""A thread that parses them for minutes, or for ever, would keep the whole process waiting."""


@pytest.mark.parametrize(
    ("hostile", "found"),
    [
        (extension(tarfile.XGLTYPE, DIGITS) + MEMBER, {"member": b""}),
        (extension(tarfile.GNUTYPE_LONGNAME, DIGITS) + MEMBER, {DIGITS.decode(): b""}),
        (
            extension(tarfile.XHDTYPE, b"22 GNU.sparse.size=10\n300007 a=%b\n" % DIGITS[3:]) + MEMBER,
            {"member": b""},
        ),
        (extension(tarfile.XHDTYPE, DIGITS) + MEMBER, None),
        (extension(tarfile.XHDTYPE, b"3 a" * 100_000) + MEMBER, None),
        (extension(tarfile.XHDTYPE, b"0 a=b\n") + MEMBER, None),
        (extension(tarfile.XHDTYPE, b"10 size=-1\n") + MEMBER, None),
        (extension(tarfile.XHDTYPE, b"11 path=a\0b\n") + MEMBER, None),
        (extension(tarfile.GNUTYPE_LONGNAME, b"") * 3_000 + MEMBER, None),
        (linked(tarfile.SYMTYPE, b"link", b"target", 10) + bytes(tar.BLOCK), None),
    ],
)
async def test_hostile_headers_take_little_time_and_memory(hostile: bytes, found: dict[str, bytes] | None) -> None:
    began = time.process_time()
    tracemalloc.start()
    try:
        if found is None:
            with pytest.raises(SandboxError, match="cannot be read"):
                await filtered(hostile + tar.END, 2**20)
        else:
            assert members(await filtered(hostile + tar.END, 2**20)) == found
        assert tracemalloc.get_traced_memory()[1] < 16 * 2**20
    finally:
        tracemalloc.stop()
    assert time.process_time() - began < 2, "with tarfile's parser it may take hours"


async def test_a_file_that_became_a_directory_has_no_content() -> None:
    directory = tarfile.TarInfo("file")
    directory.type = tarfile.DIRTYPE
    inside = tarfile.TarInfo("file/inside")
    inside.size = 3
    data = directory.tobuf() + inside.tobuf() + b"abc" + bytes(509) + tar.END
    assert [piece async for piece in tar.file_content(pieces_of(data, 700)) if piece] == []
    assert [piece async for piece in tar.file_content(pieces_of(data[tar.BLOCK :] * 2, 700)) if piece] == [b"abc"]


async def test_a_size_in_an_extension_counts() -> None:
    """The Engine says sizes beyond 8 GiB there and zero in the header."""
    entry = tarfile.TarInfo("big")
    entry.pax_headers = {"size": "1000"}
    entry.size = 0
    header = entry.tobuf(tarfile.PAX_FORMAT)
    data = header + b"y" * 1000 + bytes(24) + tar.END
    assert members(await filtered(data, 300)) == {"big": b"y" * 1000}


@pytest.mark.parametrize("format_", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
async def test_names_are_relative_to_the_workspace(format_: int) -> None:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=format_) as archive:
        for name, kind, target in (
            ("./", tarfile.DIRTYPE, ""),
            ("./d", tarfile.DIRTYPE, ""),
            ("./d/" + "n" * 200, tarfile.REGTYPE, ""),
            ("./..x", tarfile.REGTYPE, ""),
            ("./hard", tarfile.LNKTYPE, "./..x"),
            ("./soft", tarfile.SYMTYPE, "./d"),
        ):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, target
            archive.addfile(entry)
    found = members(await filtered(data.getvalue(), 100))
    assert found == {"d": "-", "d/" + "n" * 200: b"", "..x": b"", "hard": "..x", "soft": "./d"}


@pytest.mark.parametrize("cut", [1, 600, 1500])
async def test_an_archive_that_breaks_off(cut: int) -> None:
    with pytest.raises(SandboxError):
        await filtered(build(tarfile.GNU_FORMAT)[:cut], 100)


async def test_invalid_archives_are_refused() -> None:
    with pytest.raises(SandboxError):
        await filtered(b"x" * 4096, 100)


async def test_an_endless_name_is_not_kept_in_memory() -> None:
    entry = tarfile.TarInfo("name")
    entry.type, entry.size = tarfile.GNUTYPE_LONGNAME, 2**32
    with pytest.raises(SandboxError):
        await filtered(entry.tobuf() + bytes(4096), 1000)


async def test_a_negative_size_is_refused() -> None:
    header = bytearray(tarfile.TarInfo("name").tobuf(tarfile.GNU_FORMAT))
    header[124:136] = b"\xff" * 12
    header[148:156] = b"%06o\0 " % (sum(header[:148]) + 8 * 32 + sum(header[156:]))
    with pytest.raises(SandboxError):
        await filtered(bytes(header) + tar.END, 1000)


async def test_names_without_an_end_are_not_kept_in_memory() -> None:
    entry = tarfile.TarInfo("name")
    entry.type, entry.size = tarfile.GNUTYPE_LONGNAME, 2**19
    with pytest.raises(SandboxError, match="cannot be read"):
        await filtered((entry.tobuf() + bytes(2**19)) * 3, 1000)


async def test_the_event_loop_has_no_part_in_a_large_archive() -> None:
    """It takes 45 µs for each member otherwise."""
    count, header = 5_000, tarfile.TarInfo("./folder/file").tobuf(tarfile.GNU_FORMAT)
    before = time.thread_time()
    filtered_size = len(await filtered(header * count + tar.END, 2**20))
    in_loop = time.thread_time() - before
    assert filtered_size == count * tar.BLOCK + len(tar.END)
    assert in_loop < 0.03


def test_whole_members_up_to_an_error() -> None:
    archive = build(tarfile.GNU_FORMAT)
    expected = [("short", b"1"), ("d/" * 100 + "long-é", b"x" * 1500), ("empty", b""), ("link", b"t" * 150)]
    for data, whole in ((archive, 4), (archive + archive, 4), (archive[:7000], 1), (archive[:6000] + b"x" * 4096, 1)):
        found = [(member.name, content) for member, content in tar.whole_members(data)]
        assert [pair for pair in found if not pair[0].startswith("special")] == expected[:whole]


@given(
    st.binary(min_size=1, max_size=300).filter(lambda name: not {0, 47} & set(name) and name not in (b".", b"..")),
    st.integers(min_value=0, max_value=2000),
)
def test_any_name_and_size_is_written(name: bytes, size: int) -> None:
    content = bytes(index % 251 for index in range(size))
    file = os.memfd_create("content")
    try:
        os.write(file, content)
        os.lseek(file, 0, os.SEEK_SET)
        data = b"".join([*tar.regular(name, file), tar.END])
    finally:
        os.close(file)
    assert len(data) % tar.BLOCK == 0
    assert members(data) == {os.fsdecode(name).rstrip("/"): content}


@pytest.mark.parametrize("change", [-600, 600])
def test_a_file_that_changes_size_keeps_the_size_in_its_header(tmp_path: Path, change: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a" * 1000)
    file = os.open(path, os.O_RDONLY)
    try:
        pieces = tar.regular(b"file", file)
        header = next(pieces)
        os.truncate(path, 1000 + change)
        data = header + b"".join(pieces) + tar.END
    finally:
        os.close(file)
    content = members(data)["file"]
    assert content == b"a" * min(1000, 1000 + change) + bytes(max(0, -change))


async def test_an_archive_without_pieces_is_refused() -> None:
    with pytest.raises(SandboxError):
        await filtered(b"", 1)


class OfOneOwner(uvloop.Loop):
    """An event loop whose own writing to pipes, which closes a descriptor twice, is not to be used."""

    async def connect_write_pipe(self, *_: object, **__: object) -> NoReturn:
        raise AssertionError("a descriptor that another thread has opened in between would be closed with it")


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, OfOneOwner])
def test_a_thread_reads_all_pieces_by_a_pipe_that_is_closed_once(
    loop_factory: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def read() -> bytes:
        async with tar.piped(pieces_of(b"x" * 200_001, 200_000)) as reader:
            return await asyncio.to_thread(reader.read)

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        assert runner.run(read()) == b"x" * 200_001
