"""The services: everything that the API can request, by resource.

Methods that take a session's id raise `NotFoundError` (code `session_not_found`) for an unknown one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from app.llm.base import ModelInfo
from app.runtime.admission import ServiceRules
from app.runtime.destinations import Destinations
from app.runtime.dispatch import Dispatch
from app.runtime.incoming import IncomingArchives
from app.runtime.run_starts import Caller, RunStarts
from app.runtime.services.checkpoints import CheckpointService
from app.runtime.services.commands import CommandService
from app.runtime.services.files import FileService
from app.runtime.services.history import CompactionService, EventService, HistoryService
from app.runtime.services.idempotency import IdempotencyService
from app.runtime.services.queue import ApprovalService, ClientCallService, QueueService
from app.runtime.services.secrets import SecretService
from app.runtime.services.server import LoginRules, LoginService, ServerService, key_id
from app.runtime.services.sessions import Outputs, SessionService
from app.runtime.services.webhooks import WebhookService
from app.runtime.setup import RuntimeSetup
from app.runtime.telemetry.health import Health

__all__ = [
    "ApprovalService",
    "Caller",
    "CheckpointService",
    "ClientCallService",
    "CommandService",
    "CompactionService",
    "EventService",
    "FileService",
    "HistoryService",
    "IdempotencyService",
    "LoginRules",
    "LoginService",
    "QueueService",
    "SecretService",
    "ServerService",
    "Services",
    "SessionService",
    "WebhookService",
    "build_services",
    "key_id",
]


@dataclass(frozen=True, slots=True)
class Services:
    """One service for each resource."""

    sessions: SessionService
    queue: QueueService
    approvals: ApprovalService
    client_calls: ClientCallService
    commands: CommandService
    history: HistoryService
    compactions: CompactionService
    files: FileService
    checkpoints: CheckpointService
    events: EventService
    secrets: SecretService
    logins: LoginService
    server: ServerService
    webhooks: WebhookService
    idempotency: IdempotencyService


def build_services(
    setup: RuntimeSetup,
    registry: Dispatch,
    rules: ServiceRules,
    health: Health,
    logins: LoginRules,
    *,
    models: Callable[[str], list[ModelInfo]],
    output_path: Callable[[str], Path],
    outputs: Outputs,
    destinations: Destinations,
    webhooks_changed: Callable[[], None],
) -> Services:
    """The services of a server. `output_path` returns the file of a stored raw output, `outputs` copies and deletes the
    outputs of sessions. `destinations` are the addresses that webhooks may have; `webhooks_changed` is called when
    there may be something to send."""
    starts = RunStarts(registry, rules.max_runs_per_key)
    incoming = IncomingArchives(rules.archive_max_bytes)
    files = FileService(setup, incoming)
    return Services(
        sessions=SessionService(setup, registry, rules, outputs, starts, incoming),
        queue=QueueService(setup, registry, rules.queue_limit, starts, files),
        approvals=ApprovalService(setup, registry),
        client_calls=ClientCallService(setup, registry),
        commands=CommandService(setup),
        history=HistoryService(setup, output_path),
        compactions=CompactionService(setup, registry),
        files=files,
        checkpoints=CheckpointService(setup, files),
        events=EventService(setup.database, setup.bus),
        secrets=SecretService(setup, registry),
        logins=LoginService(setup.database, logins),
        server=ServerService(setup.database, health, models, rules.default_model),
        webhooks=WebhookService(setup, destinations, webhooks_changed),
        idempotency=IdempotencyService(setup),
    )
