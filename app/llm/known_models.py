"""What is known of models by name: one plain name for all spellings, output limits, prices, reasoning efforts, and
whether they verify the thinking that is sent back to them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import TypeVar

from genai_prices.types import ModelInfo as PricedModel
from genai_prices.types import ModelPrice, TieredPrices

from app.llm.base import UNKNOWN_PRICES, Prices
from app.messages import Usage
from app.sessions import ReasoningEffort

_VARIANT = re.compile(r":(?:beta|free|thinking|nitro|floor|extended|online|exacto|latest)$")
"""Suffixes of OpenRouter and others for how a model is served, and Ollama's for the newest tag."""
_OWNERS = re.compile(r"^(?:databricks-|(?:[a-z]+(?:-[a-z]+)*\.)+)")
"""Regions and vendors in front of a name, as in Amazon Bedrock: `us.anthropic.`; and Databricks' prefix."""
_REVISION = re.compile(r"-v\d+:\d+(?::\w+)?$|(?<=\d)-v1$")
"""Amazon Bedrock's revision of a model, with the size of its window if it has several: `-v1:0:200k`."""
_DATE = re.compile(r"-(?:20\d{6}|20\d\d-\d\d-\d\d)$")
_LATEST = re.compile(r"-latest$")

_LIMITS = tuple(
    (re.compile(pattern), limit)
    for pattern, limit in (
        (r"gpt-3\.5", 4_096),
        (r"gpt-4-(?:turbo|0125|1106)", 4_096),
        (r"gpt-4o", 16_384),
        (r"gpt-4\.1", 32_768),
        (r"gpt-4(?![.\do])", 8_192),
        (r"gpt-5(?:\.\d)?-chat", 16_384),
        (r"gpt-[56]", 128_000),
        (r"o1-preview", 32_768),
        (r"o1-mini", 65_536),
        (r"o[134](?:-|$)", 100_000),
        (r"claude-3[-.]5", 8_192),
        (r"claude-3[-.]7|claude-sonnet-3[-.]7", 64_000),
        (r"claude-3", 4_096),
        (r"claude-opus-4(?:[-.][01]\b|-20|$)|claude-4-opus", 32_000),
        (r"claude-opus-4[-.][6-9]|claude-(?:opus|sonnet|haiku|fable|mythos)-5", 128_000),
        (r"claude-(?:sonnet|haiku|opus)-4", 64_000),
        (r"gemini-(?:2\.5|[34])", 65_536),
        (r"gemini-(?:1\.5|2\.0)", 8_192),
        (r"deepseek-v4", 384_000),
    )
)

FREE = Prices(input=0.0, output=0.0, cache_read=0.0, cache_write=0.0)
_MTOK = Decimal(1_000_000)

_FAMILY = re.compile(r"claude-(?P<family>[a-z]+)-(?P<major>\d{1,2})(?:[-.](?P<minor>\d{1,2}))?(?!\d)")
_SINCE = {"fable": (5, 1), "mythos": (5, 1), "opus": (5, 5), "sonnet": (5, 5), "haiku": (5, 5)}

Value = TypeVar("Value", bound=str)
SCALE = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""All values that any API accepts, from the least reasoning to the most."""
_FAMILIES = tuple(
    (re.compile(pattern), tuple(values.split()))
    for pattern, values in (
        # OpenAI. "Unsupported value: 'minimal' is not supported with the 'gpt-5.4-mini' model. Supported values are:
        # 'none', 'low', 'medium', 'high', and 'xhigh'."
        (r"gpt-(?:[5-9]|\d\d)(?:\.\d+)?-chat", ""),
        (r"gpt-5-pro", "high"),
        (r"gpt-(?:[5-9]|\d\d)(?:\.\d+)?-pro", "medium high xhigh"),
        (r"gpt-5(?:\.1)?-codex(?!-max)", "low medium high"),
        (r"gpt-(?:[5-9]|\d\d)(?:\.\d+)?-codex", "low medium high xhigh"),
        (r"gpt-5(?!\.)", "minimal low medium high"),
        (r"gpt-5\.1(?!\d)", "none low medium high"),
        (r"gpt-(?:[5-9]|\d\d)", "none low medium high xhigh"),
        (r"gpt-oss", "low medium high"),
        (r"(?:chat)?gpt-", ""),
        (r"o1-(?:mini|preview)", ""),
        (r"o[134](?:-|$)", "low medium high"),
        # Anthropic: `output_config.effort`; `none` is thinking switched off.
        (r"claude-(?:opus-4[-.]5)", "none low medium high"),
        (r"claude-(?:opus|sonnet)-4[-.][6-9]", "none low medium high max"),
        (r"claude-(?:opus|sonnet|haiku|fable|mythos)-(?:[5-9]|\d\d)(?!\d)", "none low medium high max"),
        # Models with a thinking budget in tokens instead.
        (r"claude-3[-.]7|claude-(?:opus|sonnet|haiku)-4", "none low medium high"),
        (r"claude-", ""),
        # DeepSeek: lower efforts than `high` count as `high`; `none` is thinking switched off.
        (r"deepseek-(?:v4|v[5-9])", "none high max"),
        # Gemini's compatible endpoint.
        (r"gemini-2\.5-flash", "none low medium high"),
        (r"gemini-2\.5", "low medium high"),
        (r"gemini-3(?:\.\d+)?-pro", "low medium high"),
        (r"gemini-(?:[3-9])", "minimal low medium high"),
    )
)


def stripped_name(model: str) -> str:
    """A model's name in lower case without paths, regions, vendors, variants, revisions and dates. A size tag, as in
    Ollama, is part of the name: `gpt-oss:20b` becomes `gpt-oss-20b`."""
    name = model.lower().rpartition("/")[2].partition("@")[0]
    for part in (_VARIANT, _OWNERS, _REVISION, _DATE, _LATEST):
        name = part.sub("", name)
    return name.replace(":", "-")


def plain_name(model: str) -> str:
    """The stripped name with `4.5` and `4-5` made equal, for comparisons."""
    return stripped_name(model).replace(".", "-")


@lru_cache(maxsize=256)
def max_output_tokens(model: str) -> int | None:
    """The limit of a model by its name at any provider, None if unknown."""
    name = stripped_name(model)
    return next((limit for pattern, limit in _LIMITS if pattern.match(name)), None)


def base_prices(model: PricedModel) -> Prices:
    """A catalog model's current prices, without tiers."""
    if not model.prices or (isinstance(model.prices, ModelPrice) and not vars(model.prices)):
        return FREE if model.id.endswith(":free") else UNKNOWN_PRICES
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


@lru_cache(maxsize=256)
def binds_thinking(model: str) -> bool:
    """Whether a model verifies replayed thinking against everything before it; ignores providers, regions and dates
    around the family's name."""
    found = _FAMILY.search(model.lower())
    if found is None or found["family"] not in _SINCE:
        return False
    return (int(found["major"]), int(found["minor"] or 0)) >= _SINCE[found["family"]]


_BLIND = re.compile(
    r"deepseek-(?:chat|reasoner|coder|v3|v4|r1)|gpt-3\.5|gpt-4(?:-\d{4}|-32k|$)|gpt-oss|o1-(?:mini|preview)|o3-mini"
    r"|claude-(?:2|instant)|codestral|(?:code|star)coder|qwen[\d.]*-coder"
)
"""Models that take only text, according to their makers' documents or refusals: "unknown variant `image_url`, expected
`text`".
"""


@lru_cache(maxsize=256)
def sees_images(model: str) -> bool | None:
    """False for a model known to take no images, by its name at any provider; None if unknown."""
    return False if _BLIND.match(stripped_name(model)) else None


@lru_cache(maxsize=256)
def claude_version(model: str) -> tuple[int, int] | None:
    """Major and minor version of a Claude model, whatever is around the family's name; None for any other model."""
    found = _FAMILY.search(model.lower())
    return (int(found["major"]), int(found["minor"] or 0)) if found is not None else None


def efforts(model: str) -> tuple[ReasoningEffort, ...] | None:
    """The efforts that a model offers, by its name (a `vendor/` prefix is ignored); empty if it does not reason, None
    if it is unknown."""
    values = _values(model)
    return None if values is None else tuple(dict.fromkeys(map(_neutral, values)))


def offered_effort(effort: ReasoningEffort | None, offered: Sequence[ReasoningEffort] | None) -> ReasoningEffort | None:
    """The effort to request from a model that offers these (None: unknown): the nearest one, preferring lower ones;
    None if the model does not reason."""
    return effort if effort is None or offered is None else _nearest(offered, effort)


def wire_effort(model: str, effort: ReasoningEffort | None, refused: Collection[str] = ()) -> str | None:
    """The value to send for an effort that the model offers, None to send nothing. A value that the model has refused
    is replaced by the nearest one that it has not."""
    if effort is None:
        return None
    values = _values(model)
    # The operator may know better than the table, and unknown models have no table: the value is sent as it is.
    known = values if values is not None and effort in map(_neutral, values) else SCALE
    wanted = "high" if effort == "max" and values is None else effort
    return _nearest([value for value in known if value not in refused], wanted)


def reasons(model: str) -> bool:
    """Whether a model may reason: all except those known not to."""
    return _values(model) != ()


@lru_cache(maxsize=256)
def _values(model: str) -> tuple[str, ...] | None:
    """The wire values of a model's family, None for an unknown family."""
    name = model.lower().rpartition("/")[2]
    return next((values for pattern, values in _FAMILIES if pattern.match(name)), None)


def _neutral(value: str) -> ReasoningEffort:
    match value:
        case "none" | "minimal" | "low" | "medium" | "high":
            return value
        case _:
            return "max"


def _nearest(values: Sequence[Value], wanted: str) -> Value | None:
    """The nearest value, never `none` for another effort: sending no value is closer to the request."""
    fit = [value for value in values if value != "none" or wanted == "none"]
    return min(fit, key=lambda value: (abs(_rank(value) - _rank(wanted)), _rank(value)), default=None)


def _rank(value: str) -> int:
    return SCALE.index(value)
