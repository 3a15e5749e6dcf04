"""Why a rung of the ladder did not do: the codes of `compaction.failed`."""

from __future__ import annotations

from typing import Literal, NewType

from app.context.summary_prose import FaultCode
from app.errors import PalimpsestError

ErrorCode = NewType("ErrorCode", str)
"""The code of an error that kept a model from being asked, as a run has it that fails by the same."""

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
"""The codes that are a round's own. `docs/errors.md` says what each means, and is not written without that."""

RungCode = RoundCode | ErrorCode


class SummaryFailed(Exception):
    """A model gave no summary; `code` and `detail` say why."""

    def __init__(self, code: RungCode, detail: str) -> None:
        super().__init__(detail)
        self.code: RungCode = code
        self.detail = detail

    @classmethod
    def by(cls, error: PalimpsestError) -> SummaryFailed:
        """Because of an error that is told as it is."""
        return cls(ErrorCode(error.code), error.detail)
