"""What the cluster's soak holds against its witnesses: who wrote an event, what a workspace has, what a fault hit."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import ExitStack

import pytest

from tests.soak.cluster.audit import check_workspace
from tests.soak.cluster.links import How, Links
from tests.soak.cluster.plan import CLUSTER_FAULTS, cluster_faults
from tests.soak.cluster.witness import Witness
from tests.soak.cluster.writes import Write, check_writers
from tests.soak.database import Logged
from tests.unit.soak.sound import log

STORY = [
    Write("s", 1, "session.created", 0, None, "a1"),
    Write("s", 2, "step.started", 1, "node-1", "w1"),
    Write("s", 3, "message.queued", 1, "node-1", "a2"),
    Write("s", 4, "step.finished", 1, "node-1", "w1"),
    Write("s", 5, "session.recovered", 2, "node-2", "w2"),
    Write("s", 6, "step.started", 2, "node-2", "w2"),
]


def test_owners_that_write_one_after_the_other_are_in_order() -> None:
    assert list(check_writers(STORY)) == []


@pytest.mark.parametrize(
    "late",
    [
        pytest.param(Write("s", 7, "text.completed", 2, "node-2", "w1"), id="written by the former owner"),
        pytest.param(Write("s", 7, "tool.result", 2, None, "w1"), id="written while nobody owned it"),
        pytest.param(Write("s", 7, "message.queued", 1, "node-1", "a1"), id="the epoch fell"),
    ],
)
def test_a_write_of_a_superseded_owner_is_found(late: Write) -> None:
    assert [session_id for session_id, _ in check_writers([*STORY, late])] == ["s"]


def call(number: int, at: str, status: str = "completed") -> list[Logged]:
    arguments = {"command": f"echo c{number} >> ran.log || exit 97; true"}
    return log(
        ("tool.call", {"call_id": f"k{number}", "name": "execute_command", "arguments": arguments}),
        ("tool.result", {"call_id": f"k{number}", "status": status, "at": at}),
    )


def background(number: int, started: str, ended: str) -> list[Logged]:
    """A call that leaves its command running, which ends later."""
    key = f"k{number}"
    called, result = call(number, started)
    begun = ("command.started", {"command_id": key, "at": started})
    done = ("command.ended", {"command_id": key, "status": "exited", "at": ended})
    return [called, *log(begun), result, *log(done)]


def recovered(as_of: str | None) -> list[Logged]:
    return log(("session.recovered", {"workspace_as_of": as_of}))


EARLY, MIDDLE, LATE = (f"2026-01-01T00:00:0{second}.000Z" for second in (1, 2, 3))


@pytest.mark.parametrize(
    ("events", "lines", "wrong"),
    [
        pytest.param([*call(1, EARLY), *call(2, LATE)], ["c1", "c2"], False, id="all"),
        pytest.param([*call(1, EARLY), *call(2, LATE)], ["c1"], True, id="one is lost"),
        pytest.param([*call(1, EARLY), *call(2, LATE), *recovered(MIDDLE)], ["c1"], False, id="after the snapshot"),
        pytest.param([*call(1, EARLY), *call(2, LATE), *recovered(MIDDLE)], ["c2"], True, id="before the snapshot"),
        pytest.param([*call(1, EARLY), *recovered(None)], [], True, id="no snapshot was restored"),
        pytest.param([*call(1, EARLY), *call(2, LATE, "interrupted")], ["c1"], False, id="interrupted"),
        pytest.param([*background(1, EARLY, LATE), *recovered(MIDDLE)], [], False, id="in the background"),
        pytest.param([*background(1, EARLY, EARLY), *recovered(MIDDLE)], [], True, id="ended in the background"),
        pytest.param(call(1, EARLY), ["c1", "c1"], True, id="twice"),
        pytest.param(call(1, EARLY), ["c1", "c9"], True, id="never called"),
    ],
)
def test_a_workspace_lacks_only_what_its_snapshot_lacks(events: list[Logged], lines: list[str], wrong: bool) -> None:
    assert bool(list(check_workspace(events, lines, {"c1", "c2"}))) is wrong


async def test_the_witness_counts_each_report() -> None:
    async with Witness() as witness:
        for token in ("c1", "c2", "c2"):
            _, writer = await asyncio.open_connection("127.0.0.1", witness.port)
            writer.write(f"{token}\n".encode())
            writer.close()
        async with asyncio.timeout(60):
            while witness.times.total() < 3:  # noqa: ASYNC110 - another connection's
                await asyncio.sleep(0.01)
        assert witness.ran({"c1", "c2", "c3"}) == ["c1", "c2", "c2"]


def test_a_seed_draws_the_same_faults_again_and_all_kinds_in_turn() -> None:
    count = len(CLUSTER_FAULTS)
    faults = cluster_faults(7, 2 * count, 4, 60)
    assert faults == cluster_faults(7, 2 * count, 4, 60)
    assert faults != cluster_faults(8, 2 * count, 4, 60)
    assert {fault.kind for fault in faults[:count]} == {fault.kind for fault in faults[count:]} == set(CLUSTER_FAULTS)
    assert all(10 <= fault.seconds <= 60 for fault in faults)
    assert faults[0].kind == "kill_worker"
    assert {fault.kind for fault in cluster_faults(7, 9, 4, 60, ("roll",))} == {"roll"}


class Ends:
    """Both ends of connections through a link."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.links = Links({"w1/database": f"127.0.0.1:{self._listener.getsockname()[1]}"})
        stack.callback(self.links.close)

    def set(self, how: How) -> None:
        self.links.set(["w1/database"], how)

    def connect(self) -> tuple[socket.socket, socket.socket]:
        near = self._stack.enter_context(self.knock())
        far = self._stack.enter_context(self._listener.accept()[0])
        near.settimeout(10)
        far.settimeout(10)
        return near, far

    def knock(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.links.port("w1/database")), 10)


def test_a_link_can_be_stalled_and_cut() -> None:
    with ExitStack() as stack:
        ends = Ends(stack)
        near, far = ends.connect()
        near.sendall(b"one")
        assert far.recv(3) == b"one"
        ends.set("stall")
        near.sendall(b"two")
        far.settimeout(0.2)
        with pytest.raises(TimeoutError):
            far.recv(3)
        far.settimeout(10)
        ends.set("flow")
        assert far.recv(3) == b"two"
        ends.set("cut")
        assert _has_ended(near)
        with pytest.raises(ConnectionRefusedError):
            ends.knock()
        ends.set("flow")
        near, far = ends.connect()
        far.sendall(b"three")
        assert near.recv(5) == b"three"


def test_a_service_that_dies_ends_the_connections_of_its_links() -> None:
    with ExitStack() as stack:
        near, far = Ends(stack).connect()
        far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        far.close()  # with a reset
        assert _has_ended(near)


def _has_ended(side: socket.socket) -> bool:
    try:
        return side.recv(1) == b""
    except ConnectionResetError:
        return True
