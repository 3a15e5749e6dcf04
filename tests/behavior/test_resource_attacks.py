"""A model that tries to exhaust the machine: processes, memory, disk, output, files, regular expressions.

Each attack is contained in both sandboxes, the server keeps responding, and the session continues: `attack.Target` has
the common assertions. With PALIMPSEST_TEST_LONG=1 floods and files have a gigabyte, and `/healthz` has 100 ms to
answer. Durations are printed (`pytest -s`).
"""

from __future__ import annotations

import io
import random
import tarfile
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.behavior.attack import (
    DISK_MB,
    MEMORY_MB,
    PIDS,
    Most,
    Target,
    alive,
    resident_mb,
    shared_mb,
    watched,
)
from tests.behavior.conftest import WALLED
from tests.behavior.harness import Client, command, of_type
from tests.behavior.process import ServerProcess
from tests.behavior.test_interrupt import stubborn
from tests.behavior.test_memory import run_in
from tests.load import LONG
from tests.provider import Reply, Text, ToolCall, running_provider
from tests.requirements import need
from tests.unit.sandbox.shell import sleepers, unique_seconds

MIB = 2**20
FLOOD = 1024 * MIB if LONG else 32 * MIB
FILES = 100_000 if LONG else 10_000
STORED = 8 * MIB
"""Limit of stored output here."""

TIMEOUT_S = 60 if LONG else 8

pytestmark = [pytest.mark.timeout(600 if LONG else 120), pytest.mark.extended]


@pytest.fixture(scope="module", params=WALLED)
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """One server for all attacks, in a separate process."""
    kind = str(request.param)
    need(kind)
    data_dir = tmp_path_factory.mktemp(f"attacked-{kind}") / "data"
    settings = {
        "PALIMPSEST_SANDBOX_MEMORY_MB": str(MEMORY_MB),
        "PALIMPSEST_SANDBOX_PIDS": str(PIDS),
        "PALIMPSEST_SANDBOX_DISK_MB": str(DISK_MB),
        "PALIMPSEST_COMMAND_TIMEOUT_S": str(TIMEOUT_S),
        "PALIMPSEST_TOOL_OUTPUT_MAX_BYTES": str(STORED),
    }
    image = "palimpsest/test-busybox:latest"
    with running_provider() as provider, ServerProcess(data_dir, provider, kind, image, settings) as server:
        yield Target(server.url, kind, provider, server.pid)


@pytest.fixture
async def client(target: Target) -> AsyncIterator[Client]:
    async with Client(target.url) as client:
        yield client


def unique_mark() -> int:
    """A number of about 150 million that no other process here has among its arguments."""
    return 150_000_000 + random.randrange(1, 10_000)


async def test_a_fork_bomb(target: Target, client: Client) -> None:
    mark = f"bomb{unique_mark()}"
    bomb = f": {mark}; bomb() {{ (bomb) & (bomb) & while :; do :; done; }}; bomb & while :; do :; done"
    with Most(lambda: len(alive(mark))) as most:
        ran = await target.attack(client, "fork bomb", (command(bomb, timeout_s=2),))
    assert PIDS / 3 < most.value <= PIDS + 5, "the bomb's own processes and those that stand around it"
    assert "timed out" in ran.outputs[0]
    assert alive(mark) == []


async def test_a_memory_hog(target: Target, client: Client) -> None:
    """One process allocates more than all may have; then many allocate an amount each that is allowed to one."""
    mark = str(unique_mark())
    one = f"head -c 2000000000 /dev/zero | tail -c 1{mark} | wc -c"
    # Docker kills some of them and lets the others run. The other sandboxes must end all of them, so they grow slowly:
    # a watch that waits for the CPU then misses little between two checks.
    pause_s, timeout_s = (0.1, 5) if target.kind == "docker" else (1, 60)
    grow = f"(while sleep {pause_s}; do y=$y$x; done) &"
    many = f"x=$(head -c 5000000 /dev/zero | tr '\\000' x); : {mark}; for i in $(seq 10); do {grow} done; wait"
    with Most(lambda: resident_mb(mark)) as most:
        ran = await target.attack(client, "memory hog", (command(one),), (command(many, timeout_s=timeout_s),))
    print(f"most memory: {most.value:.0f} MiB")
    assert f"1{mark}" not in ran.outputs[0]
    assert f"{MEMORY_MB} MiB of memory" in ran.outputs[1] or target.kind == "docker"
    assert most.value < 5 * MEMORY_MB, "where no cgroup bounds it, what is taken between two looks"
    assert alive(mark) == []


HIDDEN_MEMORY = {
    "shared mappings": (
        "held.append(mmap.mmap(-1, size)); held[-1].write(b'x' * size)",
        "held[-1].madvise(mmap.MADV_DONTNEED)",
    ),
    "files without a name": ("held.append(os.memfd_create('x'))", "os.write(held[-1], b'x' * size)"),
    "segments": (
        "at = libc.shmget(0, size, 0o1600); assert at >= 0",
        "where = libc.shmat(at, None, 0); ctypes.memset(where, 1, size); libc.shmdt(where)",
    ),
    "files in memory": ("held.append(open(f'/dev/shm/{n}', 'wb'))", "held[-1].write(b'x' * size)"),
}


@pytest.mark.parametrize("where", HIDDEN_MEMORY)
async def test_memory_that_no_process_has_mapped(target: Target, client: Client, where: str) -> None:
    if target.kind == "docker":
        pytest.skip("the Engine has a cgroup bound it, and this image has no Python")
    start = (
        "import ctypes, mmap, os, time",
        "held, size, libc = [], 32 << 20, ctypes.CDLL(None)",
        "libc.shmat.restype, libc.shmdt.argtypes = ctypes.c_void_p, [ctypes.c_void_p]",
        "for n in range(20):",
    )
    each = (f"    {line}" for line in HIDDEN_MEMORY[where])
    script = "\n".join((*start, *each, "print('all of it')", "time.sleep(5)"))
    before = shared_mb()
    with Most(shared_mb) as most:
        ran = await target.attack(client, "hidden memory", (command(f'python3 -c "{script}"', timeout_s=10),))
    print(f"most memory: {most.value - before:.0f} MiB")
    assert "all of it" not in ran.outputs[0]
    assert most.value - before < 2 * MEMORY_MB


async def test_a_disk_filler(target: Target, client: Client) -> None:
    """It is killed; afterward nothing can be written until enough is deleted."""
    fill = "i=0; while :; do head -c 33554432 /dev/zero > f$i; i=$((i+1)); done"
    ran = await target.attack(
        client,
        "disk filler",
        (command("head -c 3000000000 /dev/zero > one; echo code $?"),),
        (command("rm one"),),
        (command(fill, timeout_s=30), command("du -sm . | cut -f1; echo more > more")),
        (ToolCall("write_file", {"path": "more", "content": "x"}), command("rm -f f*")),
        (ToolCall("write_file", {"path": "more", "content": "x"}), command("echo more > again; cat again more")),
    )
    one, _, filled, over, refused, emptied, written, again = ran.results
    assert "code 0" not in one.data["output"].splitlines(), "one file alone cannot be larger than the limit"
    assert (filled.data["status"], filled.data["exit_code"]) == ("error", None)
    assert f"of {DISK_MB:,} MiB allowed" in filled.data["output"]
    assert "timed out" not in filled.data["output"], "it was killed long before"
    megabytes = int(over.data["output"].splitlines()[0])
    print(f"most disk: {megabytes} MiB of {DISK_MB}")
    assert DISK_MB <= megabytes < DISK_MB + 4000, "what is written between two looks"
    assert over.data["exit_code"] != 0
    assert (refused.data["status"], "MiB allowed" in refused.data["output"]) == ("error", True)
    assert emptied.data["output"] == "[no output]"
    assert (written.data["status"], again.data["output"]) == ("completed", "more\nx")


async def test_uploads_stay_within_the_limit(target: Target, client: Client) -> None:
    """Docker's volumes are counted before an upload, so the first one that is too large is accepted there."""
    session = await client.create()
    size = min(DISK_MB // 2 + 1, 60) * MIB
    answers = [
        (await client.http.put(f"/v1/sessions/{session['id']}/files/f{number}", content=bytes(size))).status_code
        for number in range(DISK_MB * MIB // size + 2)
    ]
    fit = DISK_MB * MIB // size
    taken = fit if target.kind == "bubblewrap" else fit + 1
    assert answers == [201] * taken + [507] * (len(answers) - taken)


async def test_daemons(target: Target, client: Client) -> None:
    """They ignore signals, have their own process sessions, and hold the output open or closed."""
    seconds = unique_seconds()
    closed = f"exec >&- 2>&-; trap '' TERM; setsid sleep {seconds} & sleep {seconds}"
    left = f"(setsid sleep {seconds} &); (setsid sh -c 'sleep {seconds} & exit' &); echo left"
    ran = await target.attack(
        client,
        "daemons",
        (command(stubborn(seconds), timeout_s=0.7), command(closed, timeout_s=0.7)),
        (command(left),),
    )
    assert ["timed out" in output for output in ran.outputs] == [True, True, False]
    note = "[2 running processes were ended with the command; " if target.kind == "bubblewrap" else ""
    assert ran.outputs[2].startswith(f"left\n{note}")
    assert ran.results[2].data["duration_ms"] < 5000, "an output that is held open holds nothing up"
    if target.kind == "bubblewrap":
        assert sleepers(seconds) == 0
    assert (await client.http.delete(f"/v1/sessions/{ran.session_id}")).status_code == 204
    assert sleepers(seconds) == 0


async def test_output_floods(target: Target, client: Client) -> None:
    lines = f"yes 'a line of the flood' | head -c {FLOOD}"
    line = f"head -c {FLOOD} /dev/zero | tr '\\000' x >&2"
    ran = await target.attack(client, "floods", (command(lines, timeout_s=60), command(line, timeout_s=60)))
    for result in ran.results:
        assert (result.data["exit_code"], result.data["bytes"]) == (0, FLOOD)
        assert len(result.data["output"]) < 31_000
        assert f"only the first {STORED:,} of {FLOOD:,} bytes" in result.data["output"]
        stored = await client.http.get(f"/v1/sessions/{ran.session_id}/tool-calls/{result.data['call_id']}/output")
        assert len(stored.content) == STORED


async def test_huge_files(target: Target, client: Client) -> None:
    files = f"truncate -s {FLOOD} holes; yes needle | tr -d '\\n' | head -c {FLOOD} > line; echo 'a needle' > small"
    ran = await target.attack(
        client,
        "huge files",
        (command(files, timeout_s=60),),
        (
            ToolCall("read_file", {"path": "holes"}),
            ToolCall("read_file", {"path": "line"}),
            ToolCall("search_files", {"pattern": "nee+dle"}),
            ToolCall("edit_file", {"path": "line", "old_text": "x", "new_text": "y"}),
        ),
    )
    assert ran.results[0].data["exit_code"] == 0
    _, holes, line, found, edited = ran.outputs
    for refused in (holes, line, edited):
        assert "more than 10,485,760 bytes" in refused
    assert len(found) < 31_000
    assert "small:1:a needle" in found


async def test_forks_stay_within_the_limit(target: Target, client: Client) -> None:
    """Hard links stay hard links; holes are copied as holes, or the fork is refused."""
    links = "head -c 8000000 /dev/urandom > f; for i in $(seq 200); do ln f f$i; done"
    holes = f"rm f*; for i in 1 2 3 4 5 6; do truncate -s {DISK_MB}M h$i; done"
    linked = await target.attack(client, "hard links", (command(links),))
    response = await client.http.post(f"/v1/sessions/{linked.session_id}/fork")
    assert response.status_code == 201, response.text
    fork_id = response.json()["id"]
    for answer in (Reply(command("du -sm . | cut -f1")), Reply(Text("done"))):
        target.provider.script_when(lambda request: "how much" in str(request.body), answer)
    used = await run_in(client, fork_id, "how much")
    assert int(used[-1]["output"]) < 10
    hollow = await target.attack(client, "holes", (command(holes),))
    response = await client.http.post(f"/v1/sessions/{hollow.session_id}/fork")
    expected = 201 if target.kind == "bubblewrap" else 507
    assert response.status_code == expected, response.text
    for session_id in (linked.session_id, hollow.session_id, fork_id, response.json().get("id")):
        if session_id:
            assert (await client.http.delete(f"/v1/sessions/{session_id}")).status_code == 204


async def test_very_many_files(target: Target, client: Client) -> None:
    make = f"mkdir d; cd d; seq {FILES} | xargs touch; echo needle > {FILES}; ls | wc -l"
    ran = await target.attack(
        client,
        "many files",
        (command(make, timeout_s=60),),
        (ToolCall("list_directory", {"path": "d"}), ToolCall("search_files", {"pattern": "needle"})),
    )
    made, *others = ran.outputs
    listed, found = sorted(others, key=lambda output: output.startswith("d/"))
    assert made == f"{FILES}\n"
    assert "only the first 1,000 entries" in listed
    assert found.startswith(f"d/{FILES}:1:needle")
    with watched(target, f"archive of many files in {target.kind}"):
        answer = await client.http.get(f"/v1/sessions/{ran.session_id}/archive", timeout=60)
    assert answer.content.count(b"ustar") == FILES + 1
    with watched(target, f"deletion of many files in {target.kind}"):
        assert (await client.http.delete(f"/v1/sessions/{ran.session_id}", timeout=60)).status_code == 204


async def test_deeply_nested_directories(target: Target, client: Client) -> None:
    step = "/".join("d" * 100)
    nest = f"echo needle > top; for i in 0 1 2 3 4 5 6 7 8 9; do mkdir -p {step} && cd {step}; done; echo x > f"
    ran = await target.attack(
        client,
        "deep nests",
        (command(nest, timeout_s=60),),
        (ToolCall("list_directory", {}), ToolCall("search_files", {"pattern": "needle"})),
    )
    assert ran.results[0].data["exit_code"] == 0
    assert "d/" in ran.outputs[1]
    assert "top:1:needle" in ran.outputs[2]
    archive = await client.http.get(f"/v1/sessions/{ran.session_id}/archive")
    with tarfile.open(fileobj=io.BytesIO(archive.content)) as tar:
        assert {"top", "d", "d/d"} <= set(tar.getnames())
    assert (await client.http.delete(f"/v1/sessions/{ran.session_id}")).status_code == 204


async def test_control_codes(target: Target, client: Client) -> None:
    """All bytes, terminal control codes, and text direction marks."""
    codes = r"\033[2J\033]0;title\007\033]52;c;aGk=\007\302\233\342\200\256\r\010\000\377\355\240\200"
    everything = 'i=0; while [ $i -lt 256 ]; do printf "\\\\$(printf %03o $i)"; i=$((i+1)); done'
    ran = await target.attack(client, "control codes", (command(f"printf '{codes}'"), command(everything)))
    for result in ran.results:
        output = result.data["output"]
        assert ran.shown[result.data["call_id"]] == output
        assert "\x00" not in output
        output.encode()  # no lone surrogate
    assert "\x1b" not in ran.outputs[0]
    assert "title" not in ran.outputs[0]
    call_id = ran.results[0].data["call_id"]
    raw = await client.http.get(f"/v1/sessions/{ran.session_id}/tool-calls/{call_id}/output")
    assert raw.content.startswith(b"\x1b[2J\x1b]0;title\x07"), "people get what was printed"


async def test_catastrophic_patterns(target: Target, client: Client) -> None:
    """The image in Docker has busybox's grep, which would search for hours; others refuse such patterns."""
    lines = "for n in 1 2 3 4; do yes xxxxxxxxxxxxxxxxxxxxxxxxxxxxxz | head -n 2000 > f$n; done"
    patterns = [r"(x*)*(x*)*\1y", "(((x{1,90}){1,90}){1,90}){1,90}"]
    ran = await target.attack(
        client,
        "patterns",
        (command(lines, timeout_s=60),),
        tuple(ToolCall("search_files", {"pattern": pattern}) for pattern in patterns),
    )
    assert any("timed out" in output for output in ran.outputs) or target.kind == "bubblewrap"
    assert max(result.data["duration_ms"] for result in ran.results[1:]) < (TIMEOUT_S + 10) * 1000


async def test_huge_arguments(target: Target, client: Client) -> None:
    grow = "x=x; i=0; while [ $i -lt 21 ]; do x=$x$x; i=$((i+1)); done; echo ${#x}; "
    ran = await target.attack(
        client,
        "huge arguments",
        (
            command(f"{grow} export x; /bin/ls"),
            command(f"{grow} /bin/echo $x"),
            command("x" * 32_001),
            command("echo " + "\U0001f600" * 31_000),
        ),
    )
    for output in ran.outputs[:2]:
        assert "2097152\n" in output, "what the command wrote before, whichever of its two outputs arrives first"
        assert "rgument list too long" in output or target.kind == "docker", "a shell may not need to start a program"
    assert "32,000" in ran.outputs[2] or "32000" in ran.outputs[2]
    assert ran.results[2].data["status"] == "error"
    assert ran.outputs[3].startswith("\U0001f600")


@pytest.mark.parametrize("flood", ["{},", "1,", '"",'])
async def test_arguments_of_a_million_values(target: Target, client: Client, flood: str) -> None:
    """Each would become a value, and a validation error ten times as large."""
    call = ToolCall("update_plan", '{"items":[' + flood * (2_400_000 // len(flood)) + "1]}")
    target.provider.script_for(f"values {flood}", Reply(call), Reply(Text("done")), Reply(Text("done")))
    with watched(target, f"many values in {target.kind}"):
        _, events = await client.run(f"values {flood}")
    assert "more than 10,000 values" in of_type(events, "tool.result")[0].data["output"]
