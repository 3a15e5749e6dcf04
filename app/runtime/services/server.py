"""The server itself: its models, total usage, and readiness."""

from __future__ import annotations

from collections.abc import Callable

from app.db.engine import Database
from app.llm.base import ModelInfo
from app.runtime import history
from app.runtime.health import Health
from app.runtime.values.server import ModelList, ModelView, PricesView, Readiness, UsageReport


class ServerService:
    """Operations on the server as a whole."""

    def __init__(
        self, database: Database, health: Health, models: Callable[[str], list[ModelInfo]], default_model: str
    ) -> None:
        self._database = database
        self._health = health
        self._models = models
        self._default_model = default_model

    def models(self) -> ModelList:
        return ModelList(items=tuple(self._model_view(info) for info in self._models(self._default_model)))

    def _model_view(self, info: ModelInfo) -> ModelView:
        prices = info.prices
        return ModelView(
            name=info.name,
            provider=info.provider,
            context_window=info.context_window,
            window_source=info.window_source,
            max_output_tokens=info.max_output_tokens,
            prices=PricesView(
                input=prices.input,
                output=prices.output,
                cache_read=prices.cache_read,
                cache_write=prices.cache_write,
            ),
            key_present=info.key_present,
            default=info.name == self._default_model,
            description=info.description,
            reasoning_efforts=info.reasoning_efforts,
        )

    async def usage(self) -> UsageReport:
        """Tokens and cost of all sessions."""
        return await self._database.read(history.usage_report)

    async def readiness(self) -> Readiness:
        """Whether the server's components work now."""
        return await self._health.readiness()
