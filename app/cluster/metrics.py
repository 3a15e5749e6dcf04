"""The metrics of a node and of the broker."""

from __future__ import annotations

from app.cluster.node import Node
from app.cluster.relay import BrokerRelay
from app.runtime.setup import OwnerCounts
from app.runtime.telemetry.metrics import Metrics


def add_cluster_sources(metrics: Metrics, node: Node, counts: OwnerCounts) -> None:
    """Adds what a node knows of itself and of the others."""
    metrics.gauge("palimpsest_nodes", "Nodes of the cluster that are not lost.", lambda: node.membership.alive)
    metrics.gauge(
        "palimpsest_run_slots", "Sessions that all workers run at the same time.", lambda: node.membership.slots or 0
    )
    metrics.counter("palimpsest_take_overs", "Sessions taken over from other nodes.", lambda: counts.take_overs)
    metrics.counter(
        "palimpsest_ring_failures",
        "Sessions that could not be announced to Temporal; the sweep finds them.",
        lambda: node.engine.failed_rings,
    )


def add_broker_sources(metrics: Metrics, relay: BrokerRelay) -> None:
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
        "Messages not sent; readers take their events from the log.",
        lambda: traffic.dropped,
    )
    metrics.counter("palimpsest_broker_messages_malformed", "Malformed messages received.", lambda: traffic.malformed)
