"""Nodes in one process: each has its bus and its relay, and they share a database and a broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson

from app.cluster.broker import RedisBroker
from app.cluster.relay import BrokerRelay
from app.db.engine import Database
from app.eventlog.bus import Bus
from app.eventlog.channel import Channel, OpenPart
from app.eventlog.log import Appender, EventLog, StreamItem
from app.eventlog.polling import LogPoll
from app.eventlog.reader import Batches, follow
from app.events import SessionEvent, SessionIdle, StepRetrying, TextCompleted
from app.messages import Usage
from app.sessions import Outcome


class Node:
    """One server's part of the cluster."""

    def __init__(self, database: Database, url: str, namespace: str = "test") -> None:
        self.database, self.bus = database, Bus()
        self.log = EventLog(database)
        self.relay = BrokerRelay(self.bus, RedisBroker(url), LogPoll(self.bus, database), namespace=namespace)

    @asynccontextmanager
    async def follow(self, session_id: str, after: int = 0) -> AsyncIterator[Batches]:
        async with follow(self.log, self.bus, session_id, after=after, until_idle=False) as batches:
            assert batches is not None
            yield batches

    async def emit(self, session_id: str, event: type[SessionEvent], /, **fields: Any) -> int:
        """Commits an event, and publishes it here unless it is `unpublished`."""
        closes, voids = fields.pop("closes", None), fields.pop("voids", None)
        unpublished = fields.pop("unpublished", False)

        def work(connection: Any) -> list[StreamItem]:
            appender = Appender(connection, session_id)
            appender.emit(event, closes=closes, voids=voids, **fields)
            return appender.flush()

        items = await self.database.writer.write(work, session_id=session_id)
        if not unpublished:
            self.bus.publish(session_id, items)
        return items[-1].seq or 0

    async def idle(self, session_id: str, **fields: Any) -> int:
        return await self.emit(
            session_id, SessionIdle, outcome=Outcome.COMPLETED, error=None, usage=Usage(), steps=1, **fields
        )


class Owner:
    """Writes as a session's owner does."""

    def __init__(self, node: Node, session_id: str) -> None:
        self.node, self.session_id = node, session_id

    @property
    def channel(self) -> Channel:
        return self.node.bus.channel(self.session_id)

    def part(self, part_id: str, event: str = "text.delta") -> OpenPart:
        return self.channel.open_part(part_id, event, {"message_id": "m", "part_id": part_id, "index": 0})

    def write(self, text: str, part_id: str = "p", event: str = "text.delta", stream: str = "") -> None:
        self.part(part_id, event).append(text, stream)
        self.channel.wake()

    async def close(self, part_id: str = "p", **fields: Any) -> int:
        text = self.part(part_id).text
        return await self.node.emit(
            self.session_id,
            TextCompleted,
            message_id="m",
            part_id=part_id,
            index=0,
            text=text,
            closes=part_id,
            **fields,
        )

    async def void(self) -> int:
        return await self.node.emit(
            self.session_id, StepRetrying, message_id="m", attempt=1, delay_ms=1, code="c", detail="d", voids="m"
        )


@asynccontextmanager
async def running(*nodes: Node) -> AsyncIterator[None]:
    """The nodes, connected."""
    async with asyncio.timeout(60):
        if not nodes:
            yield
            return
        async with nodes[0].relay.running():
            await until(lambda: nodes[0].relay.is_connected)
            async with running(*nodes[1:]):
                yield


@asynccontextmanager
async def owned(node: Node, session_id: str, epoch: int = 1) -> AsyncIterator[Owner]:
    channel = node.bus.channel(session_id)
    channel.running = True
    try:
        with node.bus.owning(session_id, epoch):
            yield Owner(node, session_id)
    finally:
        channel.running = False
        node.bus.release(session_id)


async def until(condition: Callable[[], object], seconds: float = 20) -> None:
    """Waits for a state that no event announces."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - a state of the server or of another connection
            await asyncio.sleep(0.005)


class Transcript:
    """What one reader has received, checked as a client would: durable seqs without holes, deltas without gaps."""

    def __init__(self, after: int = 0) -> None:
        self.seqs: list[int] = []
        self.types: list[str] = []
        self.texts: dict[str, str] = {}
        self.closed: set[str] = set()
        self.starts: list[tuple[str, int]] = []
        self.batches = 0
        self._after = after

    def take(self, items: list[StreamItem]) -> None:
        self.batches += 1
        for item in items:
            data = orjson.loads(item.data)
            if item.seq is not None:
                assert item.seq == self._after + len(self.seqs) + 1, (item, self.seqs)
                self.seqs.append(item.seq)
                self.types.append(item.type)
                if item.type == "text.completed":
                    assert data["text"].startswith(self.texts.get(data["part_id"], ""))
                    self.closed.add(data["part_id"])
                    self.texts[data["part_id"]] = data["text"]
                continue
            part_id, offset = data["part_id"], data["offset"]
            assert part_id not in self.closed, "text of a closed part"
            known = self.texts.get(part_id)
            self.starts.append((part_id, offset))
            if known is None and item.type != "tool.output":
                assert offset == 0, "the first delta of a part is all of it"
            elif item.type != "tool.output":
                assert known is not None
                assert offset == len(known), "deltas are contiguous in code points"
            self.texts[part_id] = (known or "") + data["text"]

    async def read(self, batches: Batches, done: Callable[[], object], seconds: float = 20) -> None:
        async with asyncio.timeout(seconds):
            while not done():
                self.take(await anext(batches))
