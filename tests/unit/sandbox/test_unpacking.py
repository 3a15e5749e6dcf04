"""Archives from clients: what is refused, and how the rest gets into a workspace."""

from __future__ import annotations

import gzip
import io
import os
import stat
import tarfile
import warnings
import zipfile
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from backports import zstd

from app.errors import InvalidRequestError, TooLargeError, WorkspaceFullError
from app.sandbox.archive_formats import Bounds, entries
from app.sandbox.base import Sandbox, SandboxFactory
from app.sandbox.incoming import Contents, as_tar, check
from tests.unit.sandbox.shell import Shell, new_config

BOUNDS = Bounds(bytes=10_000_000, entries=500)
LINK, HARD, FOLDER = tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE
Entry = tuple[str, bytes, dict[str, Any]]


def packed(*entries: Entry, format: int = tarfile.PAX_FORMAT) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=format) as archive:
        for name, data, fields in entries:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            for field, value in fields.items():
                setattr(info, field, value)
            archive.addfile(info, io.BytesIO(data))
    return made.getvalue()


def zipped(*entries: tuple[str, bytes, int]) -> bytes:
    made = io.BytesIO()
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data, mode in entries:
            info = zipfile.ZipInfo(name, (2026, 1, 2, 3, 4, 6))
            info.create_system, info.external_attr, info.compress_type = 3, mode << 16, zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    return made.getvalue()


def link(name: str, target: str, type: bytes = LINK) -> Entry:
    return name, b"", {"type": type, "linkname": target}


def special(type: bytes) -> Entry:
    return "x", b"", {"type": type}


GOOD: tuple[Entry, ...] = (
    ("./src/a.py", b"print()\n", {"mode": 0o755, "mtime": 1_700_000_000}),
    link("src/here", "a.py"),
    link("src/up", "../README"),
    link("top", "/workspace/src"),
    ("twin", b"", {"type": HARD, "linkname": "src/a.py", "mode": 0o755, "mtime": 1_700_000_000}),
    ("new\nline \udcff", b"\0" * 100_000, {"mode": 0}),
    ("d" * 150 + "/" + "f" * 200, b"deep", {}),
    ("empty", b"", {"type": FOLDER}),
)
REFUSED = {
    "leaves": (("../x", b"", {}), "leads out"),
    "leaves later": (("a/b/../../../x", b"", {}), "leads out"),
    "absolute": (("/etc/x", b"", {}), "absolute path"),
    "link out": (link("a/l", "../../x"), "links out"),
    "link to a path of the host": (link("l", "/etc/passwd"), "links out"),
    "link to nothing": (link("l", ""), "invalid target"),
    "hard link out": (link("x", "../etc/passwd", HARD), "leads out"),
    "hard link to what is not there": (link("x", "nothing", HARD), "hard link"),
    "device": (special(tarfile.CHRTYPE), "not a file"),
    "disk": (special(tarfile.BLKTYPE), "not a file"),
    "pipe": (special(tarfile.FIFOTYPE), "not a file"),
    "set-user-ID": (("x", b"", {"mode": 0o4755}), "set-user-ID"),
    "set-group-ID": (("x", b"", {"mode": 0o2755}), "set-user-ID"),
    "long name": (("n" * 256, b"", {}), "longer than 255"),
    "long path": (("n" * 250 + ("/" + "n" * 250) * 16, b"", {}), "longer than 4095"),
    "too deep": (("d/" * 200 + "x", b"", {}), "deep"),
    "twice": (("first", b"2", {}), "twice"),
    "below a file": (("first/x", b"", {}), "below an entry"),
}


@pytest.mark.parametrize(("entry", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_hostile_entry_is_refused_by_name(entry: Entry, reason: str) -> None:
    hostile = packed(("first", b"1", {}), entry, ("last", b"", {}))
    with pytest.raises(InvalidRequestError, match=reason) as refused:
        check(io.BytesIO(hostile), (), BOUNDS)
    assert refused.value.code == "invalid_archive"
    assert refused.value.extra["entry"] == entry[0][:4096]


@pytest.mark.parametrize(
    ("name", "mode", "reason"),
    [
        ("../x", 0o100644, "leads out"),
        ("..\\x", 0o100644, "backslash"),
        ("x", 0o104755, "set-user-ID"),
        ("x", 0o020644, "not a file"),
        ("x", 0o120777, "links out"),
        ("first", 0o100644, "twice"),
    ],
)
def test_a_hostile_entry_of_a_zip_is_refused(name: str, mode: int, reason: str) -> None:
    hostile = zipped(("first", b"1", 0o100644), (name, b"/etc/passwd", mode))
    with pytest.raises(InvalidRequestError, match=reason):
        check(io.BytesIO(hostile), (), BOUNDS)


def test_digits_in_a_header_take_no_quadratic_time() -> None:
    names = "/".join(["1" * 255] * 15)
    assert check(io.BytesIO(packed((names, b"", {}), link("l", names))), (), BOUNDS).files == 2
    for digits in (" ".join(["1" * 2_000] * 10), "1" * 500_000):
        hostile = packed(("x", b"", {"pax_headers": {"comment": digits}}))
        with pytest.raises(InvalidRequestError, match="damaged"):
            check(io.BytesIO(hostile), (), BOUNDS)


def test_names_in_a_zip_are_those_that_were_packed() -> None:
    name = "ü/日.txt"
    flagged = zipped((name, b"", 0o100644))
    # As the `zip` of Linux writes them: in UTF-8 too, but without saying so.
    plain = bytearray(flagged)
    for head, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        plain[plain.index(head) + flags + 1] &= ~0x08
    dos = bytearray(plain)
    dos[dos.index(b"PK\x01\x02") + 5] = 0
    found = [next(entries(io.BytesIO(data), BOUNDS)).name.decode() for data in (flagged, plain, dos)]
    assert found == [name, name, name.encode().decode("cp437")]


def test_what_would_be_too_large_is_refused() -> None:
    bomb = packed(("z", bytes(11_000_000), {}))
    many: list[Entry] = [(str(n), b"", {}) for n in range(501)]
    lying = bytearray(zipped(("z", bytes(11_000_000), 0o100644)))
    at = lying.rindex(b"PK\x01\x02") + 24
    lying[at : at + 4] = (10).to_bytes(4, "little")
    for archive in (
        bomb,
        gzip.compress(bomb),
        zstd.compress(bomb),
        zipped(("z", bytes(11_000_000), 0o100644)),
        packed(*many),
        packed(("d/" * 150 + "x", b"", {}), *[(f"{n}/" * 180 + "x", b"", {}) for n in range(3)]),
        zipped(*[(name, b"", 0o100644) for name, _, _ in many]),
        gzip.compress(bytes(1024) + bytes(30_000_000)),  # after its end
    ):
        with pytest.raises(TooLargeError) as refused:
            check(io.BytesIO(archive), (), BOUNDS)
        assert refused.value.code == "archive_too_large"
    for archive in (
        bytes(lying),
        gzip.compress(packed(("z", b"", {"pax_headers": {"comment": "x" * 2_000_000}}))),
        packed(("z" * 2_000_000, b"", {}), format=tarfile.GNU_FORMAT),
    ):
        with pytest.raises(InvalidRequestError):
            check(io.BytesIO(archive), (), BOUNDS)


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd.compress], ids=["tar", "gz", "zst"])
def test_a_damaged_archive_is_refused(pack: Any) -> None:
    whole = packed(*GOOD, format=tarfile.GNU_FORMAT)
    broken = bytearray(whole)
    broken[whole.index(b"twin") : whole.index(b"twin") + 4] = b"TWIN"  # its checksum is wrong
    for archive in (
        pack(whole[:-10_000]),
        pack(whole[:1024]),
        pack(whole)[: len(pack(whole)) // 2],
        pack(bytes(broken)),
    ):
        with pytest.raises(InvalidRequestError, match="damaged"):
            check(io.BytesIO(archive), (), BOUNDS)


def test_a_damaged_zip_is_refused() -> None:
    whole = zipped(("a", b"hello there " * 50, 0o100644))
    broken = bytearray(whole)
    broken[45] ^= 1
    for archive in (whole[:-30], bytes(broken), b"PK\x03\x04", b"", b"no archive" * 100):
        with pytest.raises(InvalidRequestError, match="damaged"):
            check(io.BytesIO(archive), (), BOUNDS)


class Place:
    """A workspace to unpack archives in."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox

    async def unpack(self, archive: bytes, folder: Sequence[str] = (), replaced: Sequence[str] | None = None) -> None:
        async def pieces() -> AsyncIterator[bytes]:
            for piece in as_tar(io.BytesIO(archive), folder, BOUNDS):
                yield piece

        await self.sandbox.unpack(pieces(), replaced=replaced)

    async def tree(self) -> dict[str, bytes | str | None]:
        found: dict[str, bytes | str | None] = {}
        data = b"".join([piece async for piece in self.sandbox.archive()])
        with tarfile.open(fileobj=io.BytesIO(data), errors="surrogateescape") as archive:
            for member in archive:
                file = archive.extractfile(member) if member.isreg() or member.islnk() else None
                found[member.name] = file.read() if file else (member.linkname if member.issym() else None)
        return found


@pytest.fixture
async def place(factory: SandboxFactory) -> AsyncIterator[Place]:
    sandbox = factory.open(new_config())
    yield Place(sandbox)
    await sandbox.remove()


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd.compress], ids=["tar", "gz", "zst"])
async def test_an_archive_is_unpacked(place: Place, pack: Any) -> None:
    archive = pack(packed(*GOOD))
    assert check(io.BytesIO(archive), (), BOUNDS) == Contents(7, 100_012)
    await place.unpack(archive)
    deep = "d" * 150
    assert await place.tree() == {
        "src": None,
        "src/a.py": b"print()\n",
        "src/here": "a.py",
        "src/up": "../README",
        "top": "/workspace/src",
        "twin": b"print()\n",
        "new\nline \udcff": bytes(100_000),
        deep: None,
        f"{deep}/{'f' * 200}": b"deep",
        "empty": None,
    }
    shell = Shell(place.sandbox)
    result = await shell.run("stat -c '%a %Y %h' src/a.py && echo more >>new* && echo $? && ls -A")
    assert result.out.splitlines()[:2] == ["755 1700000000 2", "0"]
    assert ".palimpsest" not in result.out


async def test_a_zip_is_unpacked_in_a_folder(place: Place) -> None:
    await place.unpack(zipped(("a/", b"", 0o40700), ("a/b", b"hi", 0o100600), ("l", b"a/b", 0o120777)), ("x", "y"))
    assert await place.tree() == {"x": None, "x/y": None, "x/y/a": None, "x/y/a/b": b"hi", "x/y/l": "a/b"}


OLD = packed(
    ("dir/kept", b"old", {}),
    ("dir/same", b"old", {}),
    ("file", b"old", {}),
    link("link", "dir"),
    (".hidden", b"old", {}),
)
NEW = packed(("dir/same", b"new", {}), ("dir/added/x", b"new", {}), ("link", b"new", {}))


async def test_a_merge_replaces_files_and_follows_no_link(place: Place) -> None:
    await place.unpack(OLD)
    await place.unpack(NEW)
    assert await place.tree() == {
        "dir": None,
        "dir/kept": b"old",
        "dir/same": b"new",
        "dir/added": None,
        "dir/added/x": b"new",
        "file": b"old",
        "link": b"new",
        ".hidden": b"old",
    }


async def test_a_folder_or_all_is_replaced(place: Place) -> None:
    await place.unpack(OLD)
    await place.unpack(packed(("x", b"new", {})), ("dir",), replaced=("dir",))
    assert await place.tree() == {
        "dir": None,
        "dir/x": b"new",
        "file": b"old",
        "link": "dir",
        ".hidden": b"old",
    }
    await place.unpack(NEW, replaced=())
    new = {"dir": None, "dir/same": b"new", "dir/added": None, "dir/added/x": b"new", "link": b"new"}
    assert await place.tree() == new
    await place.unpack(packed(), replaced=())
    assert await place.tree() == {}


async def test_directories_that_nobody_may_write_to_are_merged_and_replaced(place: Place) -> None:
    """A rename changes the parent that a directory names, so its owner needs the right to write to it."""
    await place.unpack(OLD)
    close = Shell(place.sandbox)
    await close.run("mkdir dir/closed && chmod 555 dir/closed && chmod 0 .hidden && chmod 555 dir")
    await place.unpack(NEW)
    assert (await place.tree())["dir/same"] == b"new"
    await close.run("chmod 555 dir")
    await place.unpack(packed(("x", b"new", {})), ("dir",), replaced=("dir",))
    await close.run("chmod 555 dir")
    await place.unpack(packed(("x", b"new", {})), replaced=())
    assert await place.tree() == {"x": b"new"}


@pytest.mark.parametrize("replaced", [None, ("a",)])
@pytest.mark.parametrize("entry", [("file/x", b"", {}), ("link/x", b"", {}), ("dir", b"", {}), link("dir", "file")])
async def test_nothing_is_unpacked_if_something_is_in_the_way(
    place: Place, entry: Entry, replaced: Sequence[str] | None
) -> None:
    await place.unpack(OLD)
    before = await place.tree()
    with pytest.raises(InvalidRequestError, match="another type") as refused:
        await place.unpack(packed(("a/first", b"new", {}), entry, ("z", b"new", {})), replaced=replaced)
    assert refused.value.extra["entry"] == entry[0].split("/")[0]
    assert await place.tree() == before


async def test_a_full_disk_leaves_nothing(factory: SandboxFactory) -> None:
    if factory.kind == "docker":
        pytest.skip("its disk is counted between commands")
    config = new_config(disk_mb=1)
    place = Place(factory.open(config))
    await place.unpack(OLD)
    with pytest.raises(WorkspaceFullError):
        await place.unpack(packed(("big", bytes(2**20) + os.urandom(2**20), {})))
    assert "big" not in await place.tree()
    await place.sandbox.remove()


def test_owners_and_special_bits_are_left_out() -> None:
    made = b"".join(as_tar(io.BytesIO(packed(("a", b"", {"uid": 0, "mode": 0o1000}))), (), BOUNDS))
    with tarfile.open(fileobj=io.BytesIO(made)) as archive:
        (member,) = archive
    assert (member.uid, stat.S_IMODE(member.mode)) == (1000, 0o600)
