"""Prices per million tokens, and the cost of a call."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

from genai_prices.types import ModelInfo as PricedModel
from genai_prices.types import ModelPrice, TieredPrices

from app.llm.base import Prices
from app.messages import Usage

FREE = Prices(0.0, 0.0, 0.0, 0.0)
_MTOK = Decimal(1_000_000)


def base_prices(model: PricedModel) -> Prices:
    """A catalog model's current prices, without tiers."""
    if not model.prices or (isinstance(model.prices, ModelPrice) and not vars(model.prices)):
        return FREE if model.id.endswith(":free") else Prices()
    price = model.get_prices(datetime.now(UTC))
    return Prices(
        input=_base(price, "input_mtok"),
        output=_base(price, "output_mtok"),
        cache_read=_base(price, "cache_read_mtok"),
        cache_write=_base(price, "cache_write_mtok"),
    )


def flat_cost(prices: Prices, usage: Usage) -> float | None:
    """The cost in US dollars, None if the price of input or output is unknown. Cached tokens without their own price
    cost the same as input."""
    if prices.input is None or prices.output is None:
        return None
    total = (
        _price(prices.input) * usage.input_tokens
        + _price(prices.input if prices.cache_read is None else prices.cache_read) * usage.cache_read_tokens
        + _price(prices.input if prices.cache_write is None else prices.cache_write) * usage.cache_write_tokens
        + _price(prices.output) * usage.output_tokens
    )
    return float(round(total / _MTOK, 10))


def _price(value: float) -> Decimal:
    """Converts via text, so that 0.1 is exactly a tenth."""
    return Decimal(str(value))


def _base(price: ModelPrice, field: str) -> float | None:
    value = getattr(price, field, None)
    value = value.base if isinstance(value, TieredPrices) else value
    return float(value) if value is not None else None
