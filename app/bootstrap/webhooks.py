"""Who delivers to webhooks: this server, or in a cluster one of the nodes."""

from __future__ import annotations

from app.runtime.destinations import Destinations
from app.runtime.setup import RuntimeSetup
from app.runtime.webhooks.deliverer import Deliverer, Leases
from app.settings import Settings


def deliverer_of(settings: Settings, setup: RuntimeSetup, destinations: Destinations) -> Deliverer:
    """What delivers to webhooks, once it is running."""
    leases: Leases | None = None
    if settings.temporal is not None:
        from app.cluster.webhook_leases import WebhookLeases

        leases = WebhookLeases(setup)
    return Deliverer(setup, destinations, leases)
