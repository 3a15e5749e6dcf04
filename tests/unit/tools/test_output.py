from __future__ import annotations

import asyncio
import os
import random
import tracemalloc
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import pytest_asyncio
from blockbuster import blockbuster_ctx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.errors import NotFoundError
from app.sandbox.base import Stream
from app.tools.output import ClippedText, CollectedOutput, OnLive, OutputCollector, OutputLimit, left_out_line
from app.tools.store import MAX_WAITING_BYTES, FileOutputStore

KEY = "session/call"
FLOOD_BYTES = 64 * 1024 * 1024


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncIterator[FileOutputStore]:
    made = FileOutputStore(tmp_path / "outputs")
    yield made
    await made.aclose()


def collector(
    store: FileOutputStore, *, limit: int = 100, max_bytes: int = 10**9, on_live: OnLive | None = None
) -> OutputCollector:
    return OutputCollector(KEY, limit=OutputLimit(limit), max_bytes=max_bytes, store=store, on_live=on_live)


async def collect(
    store: FileOutputStore,
    pieces: Sequence[bytes],
    *,
    limit: int = 100,
    max_bytes: int = 10**9,
    note: str = "",
) -> CollectedOutput:
    taken = collector(store, limit=limit, max_bytes=max_bytes)
    for piece in pieces:
        taken.write("stdout", piece)
    return await taken.finish(note)


def count_bytes(path: Path) -> int:
    with path.open("rb", buffering=0) as file:
        return sum(map(len, iter(lambda: file.read(4096), b"")))


def write_often(taken: OutputCollector, piece: bytes, times: int) -> None:
    for _ in range(times):
        taken.write("stdout", piece)


def chunked(data: bytes, seed: int) -> list[bytes]:
    dice = random.Random(seed)
    cuts = sorted(dice.choices(range(len(data) + 1), k=dice.randrange(6)))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def by_rule(data: bytes, limit: int) -> str:
    """The text that a model should see, computed from the whole."""
    text = data.decode("utf-8", "replace").replace("\x00", "\ufffd")
    if len(text) <= limit:
        return text
    head, tail = limit // 2, limit - limit // 2
    return f"{text[:head]}\n{left_out_line(len(text) - limit)}\n{text[-tail:]}"


class TestClippedText:
    @given(st.lists(st.text()), st.integers(1, 50))
    def test_keeps_exactly_the_limit_or_everything(self, pieces: list[str], limit: int) -> None:
        clipped = ClippedText(limit)
        for piece in pieces:
            clipped.add(piece)
        whole = "".join(pieces)
        head, tail = clipped.parts()
        if len(whole) <= limit:
            assert head + tail == whole
            assert clipped.left_out == 0
        else:
            assert (head, tail) == (whole[: limit // 2], whole[-(limit - limit // 2) :])
            assert clipped.left_out == len(whole) - limit

    def test_it_returns_its_parts_at_any_time(self) -> None:
        clipped = ClippedText(4)
        clipped.add("abc")
        assert "".join(clipped.parts()) == "abc"
        clipped.add("defg")
        assert clipped.parts() == ("ab", "fg")


utf8_and_noise = st.one_of(
    st.binary(max_size=300),
    st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.text("aé€😀\x00\n", max_size=200).map(str.encode),
)


class TestCollector:
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(data=utf8_and_noise, limit=st.integers(1, 120), seed=st.integers(0, 999))
    async def test_any_chunking_gives_head_line_and_tail_of_the_whole(
        self, store: FileOutputStore, data: bytes, limit: int, seed: int
    ) -> None:
        got = await collect(store, chunked(data, seed), limit=limit)
        assert got.text == by_rule(data, limit)
        assert got.bytes == len(data)
        assert got.truncated == (len(data.decode("utf-8", "replace")) > limit)

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(data=utf8_and_noise, limit=st.integers(1, 120), seed=st.integers(0, 999))
    async def test_the_raw_bytes_are_stored_or_are_the_text(
        self, store: FileOutputStore, data: bytes, limit: int, seed: int
    ) -> None:
        got = await collect(store, chunked(data, seed), limit=limit)
        raw = got.text.encode() if got.ref is None else await store.read(got.ref)
        assert raw == data

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        parts=st.lists(st.tuples(st.sampled_from(["stdout", "stderr"]), st.binary(max_size=20)), max_size=12),
        limit=st.integers(1, 60),
    )
    async def test_live_deltas_join_to_the_whole_text_in_order(
        self, store: FileOutputStore, parts: list[tuple[Stream, bytes]], limit: int
    ) -> None:
        seen: list[tuple[Stream, str, int]] = []
        taken = collector(store, limit=10**6, on_live=lambda *delta: seen.append(delta))
        for stream, data in parts:
            taken.write(stream, data)
        got = await taken.finish()
        assert "".join(text for _, text, _ in seen) == got.text
        at = 0
        for _, text, offset in seen:
            assert offset == at
            at += len(text)
        for stream in ("stdout", "stderr"):
            whole = b"".join(data for of, data in parts if of == stream)
            of_stream = "".join(text for of, text, _ in seen if of == stream)
            assert of_stream == whole.decode("utf-8", "replace").replace("\x00", "\ufffd")

    async def test_a_code_point_split_between_pieces_is_whole(self, store: FileOutputStore) -> None:
        euro = "€".encode()
        seen: list[str] = []
        taken = collector(store, on_live=lambda stream, text, offset: seen.append(text))
        taken.write("stdout", euro[:2])
        taken.write("stderr", b"!")
        taken.write("stdout", euro[2:])
        got = await taken.finish()
        assert seen == ["!", "€"]
        assert got.text == "!€"
        assert got.ref is not None, "the raw bytes have another order than the text"
        assert await store.read(got.ref) == euro[:2] + b"!" + euro[2:]

    async def test_the_note_is_never_cut_and_has_its_own_line(self, store: FileOutputStore) -> None:
        assert (await collect(store, [b"one"], note="[n]")).text == "one\n[n]"
        assert (await collect(store, [b"one\n"], note="[n]")).text == "one\n[n]"
        assert (await collect(store, [], note="[n]")).text == "[n]"
        clipped = await collect(store, [b"x" * 50], limit=10, note="n" * 40)
        assert clipped.text == f"xxxxx\n{left_out_line(40)}\nxxxxx\n{'n' * 40}"

    async def test_the_caller_words_the_gap(self, store: FileOutputStore) -> None:
        taken = OutputCollector(KEY, limit=OutputLimit(4), max_bytes=99, store=store, left_out=lambda n: f"<{n:,}>")
        taken.write("stdout", b"ab" + b"." * 5000 + b"yz")
        got = await taken.finish()
        assert got.text.startswith("ab\n<5,000>\nyz")

    async def test_storing_stops_at_the_byte_limit_and_reports_it(self, store: FileOutputStore) -> None:
        got = await collect(store, [b"a" * 30, b"b" * 30, b"c" * 30], limit=10, max_bytes=40)
        assert got.bytes == 90
        assert got.ref is not None
        assert await store.read(got.ref) == b"a" * 30 + b"b" * 10
        assert got.text.endswith("ccccc\n[only the first 40 of 90 bytes of this output were stored]")

    async def test_a_byte_limit_below_the_character_limit_applies_too(self, store: FileOutputStore) -> None:
        got = await collect(store, [b"a" * 50], limit=100, max_bytes=20)
        assert got.text.startswith("a" * 50)
        assert not got.truncated
        assert got.ref is not None
        assert await store.size(got.ref) == 20

    async def test_a_complete_text_leaves_no_file(self, store: FileOutputStore, tmp_path: Path) -> None:
        got = await collect(store, [b"fits"])
        assert got == CollectedOutput("fits", truncated=False, bytes=4, ref=None)
        assert not (tmp_path / "outputs").exists()

    async def test_finish_returns_what_came_before_a_cancellation(self, store: FileOutputStore) -> None:
        taken = collector(store, limit=10)
        started = asyncio.Event()

        async def endless() -> None:
            taken.write("stdout", b"partial" * 10)
            started.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(endless())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        got = await taken.finish("[cancelled]")
        assert got.text.endswith("rtial\n[cancelled]")
        assert got.ref is not None
        assert await store.read(got.ref) == b"partial" * 10

    async def test_finish_can_be_repeated_after_it_was_cancelled(self, store: FileOutputStore) -> None:
        taken = collector(store, limit=10)
        taken.write("stdout", b"z" * 1000)
        first = asyncio.create_task(taken.finish())
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        again = await taken.finish("[again]")
        assert again.ref is not None
        assert await store.size(again.ref) == 1000

    async def test_output_after_the_end_is_ignored(self, store: FileOutputStore) -> None:
        taken = collector(store)
        taken.write("stdout", b"in time")
        await taken.finish()
        taken.write("stdout", b"too late")
        assert (await taken.finish()).text == "in time"

    async def test_a_failing_store_costs_the_copy_and_not_the_text(self, tmp_path: Path) -> None:
        (tmp_path / "outputs").write_text("a file where the directory should be")
        broken = FileOutputStore(tmp_path / "outputs")
        got = await collect(broken, [b"x" * 70_000, b"y" * 30_000], limit=10)
        await broken.aclose()
        assert got.text.startswith("xxxxx\n")
        assert got.text.endswith("yyyyy\n[only the first 0 of 100,000 bytes of this output were stored]")
        assert got.truncated
        assert got.ref is None

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
    async def test_a_full_disk_costs_the_copy_and_not_the_text(self, store: FileOutputStore) -> None:
        path = store.path(KEY)
        path.parent.mkdir(parents=True)
        path.symlink_to("/dev/full")
        got = await collect(store, [b"x" * 50], limit=10)
        assert got.ref is None
        assert "only the first 0 of 50 bytes" in got.text

    async def test_a_flood_costs_bounded_memory_and_is_stored_whole(self, store: FileOutputStore) -> None:
        piece = bytes(range(32, 96)) * 1024
        taken = collector(store, limit=30_000)
        tracemalloc.start()
        for _ in range(FLOOD_BYTES // len(piece)):
            taken.write("stdout", piece)
        got = await taken.finish()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 3 * MAX_WAITING_BYTES + 1024 * 1024
        assert got.bytes == FLOOD_BYTES
        assert got.ref is not None
        assert await store.size(got.ref) == FLOOD_BYTES
        assert await store.read(got.ref, FLOOD_BYTES - 5) == piece[-5:]

    async def test_a_slow_disk_slows_a_flood_down(self, store: FileOutputStore) -> None:
        path = store.path(KEY)
        path.parent.mkdir(parents=True)
        os.mkfifo(path)
        piece = b"x" * 65536
        taken = collector(store, limit=10)
        tracemalloc.start()
        reader = asyncio.create_task(asyncio.to_thread(count_bytes, path))
        await asyncio.to_thread(write_often, taken, piece, 256)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        await taken.finish()
        assert await reader == 256 * len(piece)
        assert peak < 3 * MAX_WAITING_BYTES

    async def test_nothing_blocks_the_event_loop(self, store: FileOutputStore) -> None:
        with blockbuster_ctx():
            taken = collector(store)
            for _ in range(64):
                taken.write("stdout", b"y" * 65536)
            got = await taken.finish()
            assert got.ref is not None
            assert await store.size(got.ref) == 64 * 65536
            assert await store.read(got.ref, 0, 3) == b"yyy"
            await store.delete_session("session")

    async def test_many_tiny_pieces_cost_bounded_memory(self, store: FileOutputStore) -> None:
        taken = collector(store, limit=2000)
        tracemalloc.start()
        for _ in range(30_000):
            taken.write("stdout", b"a")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        await taken.finish()
        assert peak < 1024 * 1024

    async def test_a_progress_bar_takes_no_room_and_is_stored_whole(self, store: FileOutputStore) -> None:
        live: list[tuple[str, int]] = []
        taken = collector(store, on_live=lambda _, text, offset: live.append((text, offset)))
        taken.as_terminal()
        bar = [f"\rDownloading {percent}%".encode() for percent in range(101)]
        for piece in [b"begin\n", *bar, b"\n\x1b[32mend\x1b", b"[0m\n"]:
            taken.write("stdout", piece)
        got = await taken.finish("[note]")
        raw = b"".join([b"begin\n", *bar, b"\n\x1b[32mend\x1b[0m\n"])
        assert (got.text, got.truncated) == ("begin\nDownloading 100%\nend\n[note]", False)
        assert (got.ref, got.bytes, await store.read(KEY)) == (KEY, len(raw), raw)
        assert "".join(text for text, _ in live).encode() == raw
        assert [offset for _, offset in live][-1] == len(raw) - len("[0m\n")

    async def test_a_line_that_is_overwritten_forever_takes_no_memory(self, store: FileOutputStore) -> None:
        taken = collector(store)
        taken.as_terminal()
        piece = b"\rDownloading" * 1000
        tracemalloc.start()
        try:
            for _ in range(1000):
                taken.write("stdout", piece)
                await asyncio.sleep(0)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert (await taken.finish()).text == "Downloading"
        assert peak < 2 * MAX_WAITING_BYTES + 1024 * 1024


class TestFileOutputStore:
    async def test_ranges_and_size(self, store: FileOutputStore) -> None:
        await collect(store, [b"0123456789" * 10], limit=10)
        assert await store.size(KEY) == 100
        assert await store.read(KEY, 5, 10) == b"5678901234"
        assert await store.read(KEY, 95) == b"56789"
        assert await store.read(KEY, 1000) == b""

    async def test_files_are_private(self, store: FileOutputStore) -> None:
        await collect(store, [b"x" * 100], limit=10)
        path = store.path(KEY)
        assert path.stat().st_mode & 0o077 == 0
        assert path.parent.stat().st_mode & 0o077 == 0

    async def test_a_new_writer_replaces_the_old_output(self, store: FileOutputStore) -> None:
        await collect(store, [b"old" * 100], limit=10)
        await collect(store, [b"new" * 10], limit=10)
        assert await store.read(KEY) == b"new" * 10

    async def test_deleting_a_session_removes_only_its_outputs(self, store: FileOutputStore) -> None:
        for key in ("one/a", "one/b", "two/a"):
            writer = store.writer(key)
            writer.add(b"data")
            assert await writer.close() == 4
        await store.delete_session("one")
        await store.delete_session("never-was")
        assert await store.size("two/a") == 4
        for key in ("one/a", "one/b"):
            with pytest.raises(NotFoundError):
                await store.size(key)
            with pytest.raises(NotFoundError):
                await store.read(key)

    @pytest.mark.parametrize(
        "key",
        ["", "a", "a/", "/a", "../a", "a/..", "a/../b", "a/b/c", "a/b\x00", "a/.hidden", "a/b\n", "a/" + "x" * 200],
    )
    def test_a_key_names_a_file_of_the_store_or_nothing(self, tmp_path: Path, key: str) -> None:
        with pytest.raises(NotFoundError) as caught:
            FileOutputStore(tmp_path).path(key)
        assert caught.value.code == "output_not_found"

    async def test_a_session_that_is_a_path_is_refused(self, store: FileOutputStore) -> None:
        with pytest.raises(NotFoundError):
            await store.delete_session("..")
