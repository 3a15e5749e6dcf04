"""Why a rung of the ladder failed: the codes of `compaction.failed`."""

from __future__ import annotations

from typing import Literal, NewType

from app.context.summary_prose import FaultCode
from app.errors import PalimpsestError

ErrorCode = NewType("ErrorCode", str)
"""The code of an error that kept a model from being called, the same as for a run that fails with it."""

RoundCode = Literal[
    FaultCode,
    "summary_is_output",
    "too_many_calls",
    "context_overflow",
    "internal_error",
    "nothing_to_summarise",
    "not_small_enough",
    "nothing_to_compact",
]
"""The codes specific to rounds. Each needs an entry in `docs/errors.md`, which cannot be generated without it."""

RungCode = RoundCode | ErrorCode


class SummaryFailed(Exception):
    """A model gave no summary; `code` and `detail` say why."""

    def __init__(self, code: RungCode, detail: str) -> None:
        super().__init__(detail)
        self.code: RungCode = code
        self.detail = detail

    @classmethod
    def by(cls, error: PalimpsestError) -> SummaryFailed:
        """From an error, with its code and detail unchanged."""
        return cls(ErrorCode(error.code), error.detail)
