"""The broker's metrics."""

from __future__ import annotations

from app.cluster.relay import BrokerRelay
from app.runtime.telemetry.metrics import Metrics


def add_broker_readings(metrics: Metrics, relay: BrokerRelay) -> None:
    """Adds what the relay counts."""
    traffic = relay.traffic
    metrics.gauge("palimpsest_broker_connected", "1 if the broker is connected, else 0.", lambda: relay.is_connected)
    metrics.counter("palimpsest_broker_losses", "Lost connections to the broker.", lambda: traffic.losses)
    metrics.counter("palimpsest_broker_messages_sent", "Messages sent to other servers.", lambda: traffic.sent)
    metrics.counter("palimpsest_broker_bytes_sent", "Their bytes.", lambda: traffic.sent_bytes)
    metrics.counter("palimpsest_broker_messages_received", "Messages received.", lambda: traffic.received)
    metrics.counter("palimpsest_broker_bytes_received", "Their bytes.", lambda: traffic.received_bytes)
    metrics.counter(
        "palimpsest_broker_messages_dropped",
        "Messages not sent, whose events readers take from the log.",
        lambda: traffic.dropped,
    )
    metrics.counter(
        "palimpsest_broker_messages_malformed", "Messages received and not understood.", lambda: traffic.malformed
    )
