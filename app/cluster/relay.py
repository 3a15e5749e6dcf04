"""Connects this node's bus with those of other nodes: live text and events of sessions, and nudges.

Where the broker fails, nothing durable is lost: each message only saves others a look at the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import structlog

from app.cluster.broker import Broker, BrokerError
from app.cluster.outlet import Inlet, Outlet
from app.cluster.sending import Message, Traffic, WaitingMessages
from app.cluster.wire import ASK, NUDGE, PING, MalformedUpdateError, Update, decode, encode
from app.eventlog.bus import Bus
from app.eventlog.channel import Channel
from app.eventlog.log import StreamItem
from app.eventlog.news import news_of
from app.eventlog.polling import LogPoll
from app.messages import new_id
from app.runtime.values.server import Component

PING_S, SILENT_S = 1.0, 3.0
"""How often a node sends itself a message, and after how many seconds without any the broker counts as away: a frozen
one keeps its connections open."""
RETRY_S = 0.5
"""Seconds between attempts to reach the broker."""
FLUSH_S = 1.0
"""Seconds that the last messages have at shutdown."""
BATCH_BYTES = 1 << 20
"""Sent at a time, beyond which other sessions wait for the next batch."""
MAX_NODE_CHARS, MAX_ASKS = 64, 10_000
"""Of a node's id, and of nodes' questions that wait."""

log = structlog.get_logger(__name__)


class BrokerRelay:
    """See `eventlog.bus.Relay`. `running` must be entered before the bus has its first channel."""

    def __init__(self, bus: Bus, broker: Broker, poll: LogPoll, *, namespace: str, address: str = "") -> None:
        """`namespace` identifies the database, since a broker may serve several; `poll` reads the logs of followed
        sessions when messages may have been missed."""
        self._bus, self._broker, self._poll = bus, broker, poll
        self._address = address
        self._prefix = f"palimpsest:{namespace}:"
        self._node = new_id()
        self._mine = b'["' + self._node.encode()
        """How an update of this node begins."""
        self._inbox = f"{self._prefix}node:{self._node}"
        self._feed = f"{self._prefix}sessions"
        self._outlets: dict[str, Outlet] = {}
        self._inlets: dict[str, Inlet] = {}
        self._nudges: set[str] = set()
        self._wanted: set[str] = {self._inbox, self._feed}
        self._requested: set[str] = set()
        self._confirmed: set[str] = set()
        self._waiting = WaitingMessages()
        self._changed: dict[str, None] = {}
        """Sessions with text to send, in order."""
        self._asks: dict[tuple[str, str], None] = {}
        """Nodes that need the open parts of a session."""
        self._asked: dict[str, None] = {}
        """Sessions whose owner this node has asked, until its answer or a second later."""
        self._work = asyncio.Event()
        self._is_sent = asyncio.Event()
        self._heard = 0.0
        self.is_connected = False
        self.traffic = Traffic()

    # Called by the bus.

    def published(self, session_id: str, items: Sequence[StreamItem]) -> None:
        outlet = self._outlets.get(session_id)
        if outlet is not None:
            outlet.published(items)
            self._has_changed(session_id)
        else:
            self._send(self._channel_of(session_id), Update(self._node, session_id, items))
        if news := news_of(items):
            self._send(self._feed, Update(self._node, "", news))

    def deleted(self, session_id: str, last: StreamItem) -> None:
        self._send(self._channel_of(session_id), Update(self._node, session_id, [last], deleted=True))
        self._send(self._feed, Update(self._node, "", news_of([last])))

    def followed(self, channel: Channel) -> None:
        session_id = channel.session_id
        self._inlets[session_id] = Inlet(channel)
        name = self._channel_of(session_id)
        self._want(name)
        if name in self._confirmed:
            self._synchronize(session_id)

    def unfollowed(self, channel: Channel) -> None:
        inlet = self._inlets.get(channel.session_id)
        if inlet is None or inlet.channel is not channel:
            return
        del self._inlets[channel.session_id]
        self._asked.pop(channel.session_id, None)
        self._unwant(self._channel_of(channel.session_id))

    def owned(self, channel: Channel, epoch: int) -> None:
        session_id = channel.session_id
        outlet = self._outlets[session_id] = Outlet(channel, epoch)
        channel.outlet = lambda: self._has_changed(session_id)
        self._want(self._owner_of(session_id))
        if self._owner_of(session_id) in self._confirmed:
            outlet.start()
            self._has_changed(session_id)

    def disowned(self, channel: Channel) -> None:
        channel.outlet = None
        outlet = self._outlets.pop(channel.session_id)
        self._changed.pop(channel.session_id, None)
        if (last := outlet.last(self._node)) is not None:
            self._send(self._channel_of(channel.session_id), last)
        self._unwant_owner(channel.session_id)
        self.traffic.dropped += outlet.dropped
        if channel.session_id in self._inlets:
            # The next owner may be on another node already.
            self._synchronize(channel.session_id)

    def nudge(self, session_id: str) -> None:
        self._send_bytes(self._owner_of(session_id), NUDGE)

    def expects_nudges(self, session_id: str, expected: bool) -> None:
        if expected:
            self._nudges.add(session_id)
            self._want(self._owner_of(session_id))
        else:
            self._nudges.discard(session_id)
            self._unwant_owner(session_id)

    # Names and subscriptions.

    def _channel_of(self, session_id: str) -> str:
        return f"{self._prefix}session:{session_id}"

    def _owner_of(self, session_id: str) -> str:
        return f"{self._prefix}owner:{session_id}"

    def _want(self, name: str) -> None:
        self._wanted.add(name)
        self._work.set()

    def _unwant(self, name: str) -> None:
        self._wanted.discard(name)
        self._work.set()

    def _unwant_owner(self, session_id: str) -> None:
        if session_id not in self._outlets and session_id not in self._nudges:
            self._unwant(self._owner_of(session_id))

    # Sending.

    def _has_changed(self, session_id: str) -> None:
        if self._outlets[session_id].sends:
            self._changed[session_id] = None
            self._work.set()

    def _send(self, channel: str, update: Update) -> None:
        if self.is_connected:
            self._send_bytes(channel, encode(update))
        else:
            self.traffic.dropped += 1

    def _send_bytes(self, channel: str, data: bytes) -> None:
        if self.is_connected and self._waiting.add(Message(channel, data)):
            self._work.set()
        else:
            self.traffic.dropped += 1

    def _batch(self) -> list[Message]:
        """What is sent next: what waits, the snapshots that were asked for, then the text of sessions."""
        batch: list[Message] = []
        size = 0
        while self._waiting and size < BATCH_BYTES:
            batch.append(self._waiting.take())
            size += len(batch[-1].data)
        while self._asks and size < BATCH_BYTES:
            session_id, node = next(iter(self._asks))
            del self._asks[session_id, node]
            if (outlet := self._outlets.get(session_id)) is not None:
                parts = [encode(update) for update in outlet.snapshot(self._node)]
                batch += [Message(f"{self._prefix}node:{node}", data) for data in parts]
                size += sum(map(len, parts))
        while self._changed and size < BATCH_BYTES:
            session_id = next(iter(self._changed))
            outlet = self._outlets[session_id]
            if (update := outlet.take(self._node)) is None:
                del self._changed[session_id]
            else:
                # Moved to the end: it may have more, but others come first.
                self._changed[session_id] = self._changed.pop(session_id)
                data = encode(update)
                batch.append(Message(self._channel_of(session_id), data, outlet, outlet.asked))
                size += len(data)
        return batch

    async def _pump(self) -> None:
        """Changes subscriptions and sends, one batch after the other; what comes meanwhile is merged."""
        while True:
            await self._work.wait()
            self._work.clear()
            await self._change_subscriptions()
            while batch := self._batch():
                counts = await self._broker.publish([(message.channel, message.data) for message in batch])
                self.traffic.sent += len(batch)
                self.traffic.sent_bytes += sum(len(message.data) for message in batch)
                for message, listeners in zip(batch, counts, strict=True):
                    if (outlet := message.outlet) is None or self._others(message.channel, listeners):
                        continue
                    if outlet.asked == message.asked:
                        outlet.no_listeners()
                if self._wanted != self._requested:
                    await self._change_subscriptions()
            self._is_sent.set()

    def _others(self, channel: str, listeners: int) -> int:
        """Those of a channel's listeners that are on other nodes."""
        return listeners - (channel in self._confirmed)

    async def _change_subscriptions(self) -> None:
        added, removed = self._wanted - self._requested, self._requested - self._wanted
        if added:
            await self._broker.subscribe(added)
        if removed:
            self._confirmed -= removed
            await self._broker.unsubscribe(removed)
        self._requested = (self._requested | added) - removed

    # Receiving.

    async def _listen(self) -> None:
        while True:
            channel, data = await self._broker.receive()
            self._heard = asyncio.get_running_loop().time()
            if data is None:
                self._take_confirmation(channel)
                continue
            self.traffic.received += 1
            self.traffic.received_bytes += len(data)
            self._take(channel, data)

    def _take_confirmation(self, channel: str) -> None:
        if channel not in self._wanted:
            return
        self._confirmed.add(channel)
        if {self._inbox, self._feed} <= self._confirmed:
            self._poll.hurry(False)
        kind, _, session_id = channel.removeprefix(self._prefix).partition(":")
        if kind == "session":
            self._synchronize(session_id)
        elif kind == "owner" and (outlet := self._outlets.get(session_id)) is not None:
            outlet.start()
            self._has_changed(session_id)

    def _synchronize(self, session_id: str) -> None:
        """What came before this node listened is in the log, or known to the owner."""
        self._poll.look(session_id)
        self._ask(session_id)

    def _ask(self, session_id: str) -> None:
        if session_id not in self._outlets and session_id not in self._asked:
            self._asked[session_id] = None
            self._send_bytes(self._owner_of(session_id), ASK + self._node.encode())

    def _take(self, channel: str, data: bytes) -> None:
        kind, _, session_id = channel.removeprefix(self._prefix).partition(":")
        if data == PING or data.startswith(self._mine):
            return
        if kind == "owner":
            if data == NUDGE:
                self._bus.nudged(session_id)
            elif data.startswith(ASK):
                self._take_question(session_id, data.removeprefix(ASK).decode(errors="replace"))
            return
        try:
            update = decode(data)
        except MalformedUpdateError as error:
            self.traffic.refuse(error)
            return
        if kind == "sessions":
            self._bus.all.publish(update.events)
        else:
            self._apply(update, is_answer=kind == "node")

    def _take_question(self, session_id: str, node: str) -> None:
        outlet = self._outlets.get(session_id)
        if len(node) > MAX_NODE_CHARS or len(self._asks) >= MAX_ASKS:
            self.traffic.dropped += 1
        elif outlet is not None and outlet.is_ready and node != self._node:
            outlet.ask()
            self._asks[session_id, node] = None
            self._work.set()

    def _apply(self, update: Update, *, is_answer: bool) -> None:
        if is_answer:
            self._asked.pop(update.session_id, None)
        inlet = self._inlets.get(update.session_id)
        if inlet is None:
            return
        if update.deleted:
            self._bus.end(update.session_id, update.events[0] if update.events else None)
        elif not inlet.apply(update):
            self._ask(update.session_id)

    # The connection.

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keeps the connection while the context lasts."""
        self._bus.relay = self
        task = asyncio.create_task(self._keep_connected(), name="broker")
        try:
            async with self._poll.running():
                yield
                await self._flush()
        finally:
            self._bus.relay = None
            task.cancel()
            await asyncio.wait({task})
            await self._broker.aclose()

    async def _flush(self) -> None:
        self._is_sent.clear()
        self._work.set()
        if self.is_connected:
            with suppress(TimeoutError):
                async with asyncio.timeout(FLUSH_S):
                    await self._is_sent.wait()

    async def _keep_connected(self) -> None:
        is_known = False
        while True:
            try:
                await self._broker.connect()
                self._connected()
                is_known = False
                await self._serve()
            except BrokerError as error:
                if not is_known:
                    log.warning("broker_lost", address=self._address, reason=str(error))
                is_known = True
            except Exception:
                log.exception("broker_failed")
            self._lost()
            await asyncio.sleep(RETRY_S)

    def _connected(self) -> None:
        log.info("broker_connected", address=self._address)
        self._heard = asyncio.get_running_loop().time()
        self.is_connected = True
        self._work.set()

    def _lost(self) -> None:
        if self.is_connected:
            self.traffic.losses += 1
        self.is_connected = False
        self._poll.hurry(True)
        self.traffic.dropped += len(self._waiting)
        self._waiting.clear()
        for state in (self._requested, self._confirmed, self._changed, self._asks, self._asked):
            state.clear()
        for outlet in self._outlets.values():
            outlet.stop()

    async def _serve(self) -> None:
        """Serves one connection until it fails with `BrokerError`."""
        tasks = [asyncio.ensure_future(work) for work in (self._pump(), self._listen(), self._watch())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)  # several of them may have failed

    async def _watch(self) -> None:
        """Notices a broker that is frozen or does not deliver."""
        loop = asyncio.get_running_loop()
        while True:
            self._send_bytes(self._inbox, PING)
            await asyncio.sleep(PING_S)
            self._asked.clear()
            if loop.time() - self._heard > SILENT_S:
                raise BrokerError(f"No message for {SILENT_S:.0f} seconds.")

    async def check(self) -> Component:
        """The broker as a component of the server's health."""
        if self.is_connected:
            return Component(ok=True, status="ok", detail=f"connected to {self._address}")
        detail = f"{self._address} cannot be reached: readers get events from the log, once a second."
        return Component(ok=False, status="unreachable", detail=detail)
