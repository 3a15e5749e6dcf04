"""Model providers: a neutral request goes in, a neutral stream comes out, whatever format the provider uses.

`Providers` finds the provider of a model name, `Catalog` knows windows and prices, `delay_s` says when to retry.
"""

from app.llm.base import (
    BlockEnd,
    Finish,
    ModelInfo,
    ModelRequest,
    Prices,
    Provider,
    ReasoningDelta,
    StopReason,
    StreamEvent,
    TextDelta,
    ToolArgumentsDelta,
    ToolCallStart,
    ToolSchema,
    UsageReport,
)
from app.llm.catalog import Catalog, ModelOverride
from app.llm.registry import ProviderConfig, Providers
from app.llm.retry import delay_s

__all__ = [
    "BlockEnd",
    "Catalog",
    "Finish",
    "ModelInfo",
    "ModelOverride",
    "ModelRequest",
    "Prices",
    "Provider",
    "ProviderConfig",
    "Providers",
    "ReasoningDelta",
    "StopReason",
    "StreamEvent",
    "TextDelta",
    "ToolArgumentsDelta",
    "ToolCallStart",
    "ToolSchema",
    "UsageReport",
    "delay_s",
]
