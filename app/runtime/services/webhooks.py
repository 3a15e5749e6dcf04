"""Webhooks: create, list, read, change, delete, test; their deliveries, and sending one again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import orjson
from sqlalchemy import Connection

from app.db.repositories import deliveries, sessions, webhooks
from app.db.repositories import webhook_requests as requests
from app.db.repositories.webhook_requests import StoredRequest
from app.db.repositories.webhooks import ACTIVE, DISABLED, StoredDelivery, StoredWebhook
from app.errors import ConflictError, InvalidRequestError, UnavailableError
from app.messages import new_id, now, rfc3339
from app.runtime.admission import checked_metadata
from app.runtime.destinations import Destinations
from app.runtime.history import place_cursor, read_place
from app.runtime.setup import RuntimeSetup
from app.runtime.values.webhooks import (
    Delivery,
    DeliveryList,
    DeliveryStatus,
    Webhook,
    WebhookCreate,
    WebhookCreated,
    WebhookList,
    WebhookPatch,
)
from app.runtime.webhooks.endpoint import OTHER_KEY
from app.runtime.webhooks.results import RETRIED_FOR
from app.runtime.webhooks.sealing import opened, sealed
from app.runtime.webhooks.signing import TEST, new_secret

MOST = 200
"""Webhooks of a server. Each may hold four connections, and reads what happens in all sessions."""

KEYS_KEPT = timedelta(hours=24)
"""How long a request can be repeated with its `Idempotency-Key`."""

BY_REQUEST = "By a request."


class WebhookService:
    """Changes webhooks; `changed` is called after what makes something due."""

    def __init__(self, setup: RuntimeSetup, destinations: Destinations, changed: Callable[[], None]) -> None:
        self._setup = setup
        self._database = setup.database
        self._destinations = destinations
        self._changed = changed

    async def create(
        self, body: WebhookCreate, key: str | None = None, caller: str | None = None
    ) -> tuple[WebhookCreated, bool]:
        """A new webhook, which gets events from now on, and True; or, for a request that the caller repeats with the
        same `key`, what the first one has returned, and False. Raises `InvalidRequestError` for an address that is
        refused and for a key with another body, `NotFoundError` for an unknown session, and `ConflictError` if there
        are too many webhooks."""
        self._destinations.check(body.url)
        at, secret, webhook_id = now(), new_secret(), new_id()
        webhook = StoredWebhook(
            webhook_id,
            body.url,
            None if body.events is None else list(body.events),
            body.session_id,
            checked_metadata(body.metadata),
            await sealed(self._setup.vault, webhook_id, secret),
            status=ACTIVE,
            disabled_at=None,
            disabled_reason=None,
            created_at=at,
            updated_at=at,
        )

        request = None if key is None else _request(webhook, body, key, caller)

        def write(connection: Connection) -> StoredWebhook:
            if request is not None:
                requests.forget(connection, at - KEYS_KEPT)
                first = requests.claim(connection, request)
                if first.body_digest != request.body_digest:
                    detail = "The Idempotency-Key was used with another body."
                    raise InvalidRequestError(detail, code="idempotency_key_reused")
                if first.webhook_id != webhook_id:
                    return webhooks.find(connection, first.webhook_id)
            if webhooks.count(connection) >= MOST:
                raise ConflictError(f"The limit of {MOST} webhooks is reached.", code="too_many_webhooks", most=MOST)
            if webhook.session_id is not None:
                sessions.row(connection, webhook.session_id)
            webhooks.add(connection, webhook)
            return webhook

        made = await self._write(write)
        if made is not webhook:
            secret = await self._secret(made)
        # As it was made, whatever has changed it since: the body is the same.
        answer = webhook._replace(id=made.id, created_at=made.created_at, updated_at=made.created_at)
        return WebhookCreated.of(_view(answer), secret=secret), made is webhook

    async def _secret(self, webhook: StoredWebhook) -> str:
        secret = await opened(self._setup.vault, webhook.id, webhook.secret)
        if secret is None:
            raise UnavailableError(OTHER_KEY, code="secret_key_missing")
        return secret

    async def list(self, *, limit: int, cursor: str | None) -> WebhookList:
        """Webhooks, newest first. Raises `MalformedRequestError` for an invalid cursor."""
        before = read_place(cursor)
        items, more = await self._database.read(lambda c: webhooks.page(c, before, limit))
        next_cursor = place_cursor(items[-1].created_at, items[-1].id) if more else None
        return WebhookList(items=tuple(map(_view, items)), next_cursor=next_cursor)

    async def get(self, webhook_id: str) -> Webhook:
        return _view(await self._database.read(lambda c: webhooks.find(c, webhook_id)))

    async def patch(self, webhook_id: str, body: WebhookPatch) -> Webhook:
        """Changes a webhook from its next delivery on. With another URL, what has failed is sent again at once. Raises
        as `create` does."""
        if body.url is not None:
            self._destinations.check(body.url)
        values = _changes(body)

        def write(connection: Connection) -> StoredWebhook:
            at = now()
            before = webhooks.find(connection, webhook_id)
            webhooks.change(connection, webhook_id, values, at)
            if body.url not in (None, before.url):
                deliveries.send_pending(connection, webhook_id, at)
            _set_status(connection, before, body.status, at)
            return webhooks.find(connection, webhook_id)

        return _view(await self._write(write))

    async def delete(self, webhook_id: str) -> None:
        """Removes a webhook with its list of deliveries."""
        await self._write(lambda c: webhooks.remove(c, webhook_id))

    async def deliveries(
        self, webhook_id: str, *, status: DeliveryStatus | None, limit: int, cursor: str | None
    ) -> DeliveryList:
        """Deliveries, newest first."""
        before = read_place(cursor)
        items, more = await self._database.read(lambda c: webhooks.deliveries(c, webhook_id, status, before, limit))
        next_cursor = place_cursor(items[-1].created_at, items[-1].id) if more else None
        return DeliveryList(items=tuple(map(Delivery.of, items)), next_cursor=next_cursor)

    async def test(self, webhook_id: str, delivery_id: str | None = None) -> Delivery:
        """Has a test sent once, also to a webhook that is disabled; nothing if there is a delivery with this id, for a
        request that is repeated."""
        at = now()
        data = orjson.dumps({"at": rfc3339(at), "webhook_id": webhook_id}).decode()
        delivery = StoredDelivery.first(delivery_id or new_id(), webhook_id, TEST, at, data=data)

        def write(connection: Connection) -> StoredDelivery:
            webhooks.find(connection, webhook_id)
            deliveries.add(connection, delivery)
            return webhooks.find_delivery(connection, webhook_id, delivery.id)

        return Delivery.of(await self._write(write))

    async def retry(self, webhook_id: str, delivery_id: str) -> Delivery:
        """Has a delivery sent now."""

        def write(connection: Connection) -> StoredDelivery:
            found = webhooks.find_delivery(connection, webhook_id, delivery_id)
            deliveries.send_again(connection, found, now())
            return webhooks.find_delivery(connection, webhook_id, delivery_id)

        return Delivery.of(await self._write(write))

    async def _write(self, work: Callable[[Connection], Any]) -> Any:
        def fenced(connection: Connection) -> Any:
            self._setup.fence(connection)
            return work(connection)

        result = await self._database.writer.write(fenced)
        self._changed()
        return result


def _request(webhook: StoredWebhook, body: WebhookCreate, key: str, caller: str | None) -> StoredRequest:
    content = orjson.dumps(body.model_dump(mode="json"), option=orjson.OPT_SORT_KEYS)
    key_digest = hashlib.sha256(f"{caller}\0{key}".encode()).hexdigest()
    return StoredRequest(key_digest, hashlib.sha256(content).hexdigest(), webhook.id, webhook.created_at)


def _view(webhook: StoredWebhook) -> Webhook:
    return Webhook.of(webhook)


def _changes(body: WebhookPatch) -> dict[str, Any]:
    """The columns that a request changes. Null means all `events` and no `metadata`."""
    values: dict[str, Any] = {"url": body.url} if body.url is not None else {}
    if "events" in body.model_fields_set:
        values["events"] = None if body.events is None else list(body.events)
    if "metadata" in body.model_fields_set:
        values["metadata"] = checked_metadata(body.metadata)
    return values


def _set_status(connection: Connection, before: StoredWebhook, status: str | None, at: datetime) -> None:
    if status == DISABLED:
        webhooks.disable(connection, before.id, BY_REQUEST, at)
    elif status == ACTIVE and before.status == DISABLED:
        webhooks.enable(connection, before.id, at, at + RETRIED_FOR)
