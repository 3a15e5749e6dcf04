"""The rules from the settings: what requests may ask for, who may log in, and how long data is kept."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from app.bootstrap.providers import default_model
from app.context.policies import resolve
from app.runtime.admission import ServiceRules
from app.runtime.approval_rules import operators_approval
from app.runtime.retention import RetentionRules
from app.runtime.services import LoginRules
from app.sessions import Limits
from app.settings import Settings


def service_rules(settings: Settings, tools: Sequence[str]) -> ServiceRules:
    """The defaults and upper bounds of a session. `tools` are the names of all tools."""
    most = Limits(**settings.session_limits.model_dump())
    return ServiceRules(
        default_model=default_model(settings),
        compaction=resolve(settings.compaction),
        limits=Limits(max_steps=settings.max_steps),
        most=most,
        queue_limit=settings.queue_limit,
        approval=operators_approval(settings.approval, tools),
    )


def retention_rules(settings: Settings) -> RetentionRules:
    """How long raw outputs and sessions are kept; forever unless the settings say otherwise."""
    outputs, sessions = settings.retain_outputs_days, settings.retain_sessions_days
    return RetentionRules(
        outputs=timedelta(days=outputs) if outputs is not None else None,
        sessions=timedelta(days=sessions) if sessions is not None else None,
    )


def login_rules(settings: Settings) -> LoginRules:
    """Which keys may log in, and how long a login lasts."""
    keys = tuple(key.get_secret_value().encode() for key in settings.api_keys)
    return LoginRules(keys, timedelta(days=settings.login_days))
