"""How large a context is, by what its provider reports and by our own count."""

from __future__ import annotations

from collections.abc import Callable

from app.context.budget import Budget, context_state, context_tokens
from app.context.tokens import Calibration
from app.context.truncation import PromptCounts, Sent
from app.messages import Usage
from app.sessions import ContextState


class Gauge:
    """Follows one conversation. `estimated` is always our raw count of the next request, `calibration` how far such
    counts are off for its model."""

    def __init__(self, calibration: Calibration, reported: Usage | None, later_tokens: int) -> None:
        """`reported` is what the last step's provider reported, and `later_tokens` our count of what came after it."""
        self.calibration = calibration
        self._reported = reported
        self._later_tokens = later_tokens
        self._counts = PromptCounts()
        self._observed = False

    def forget(self) -> None:
        """The context was made anew: what was reported says nothing of it."""
        self._reported = None
        self.forget_counts()

    def forget_counts(self) -> None:
        """The next request may be counted smaller than the last one."""
        self._counts = PromptCounts()

    def add(self, tokens: int) -> None:
        """The context has grown."""
        self._later_tokens += tokens

    def was_truncated(self, usage: Usage, sent: Sent, least: Callable[[int], int], *, known_window: bool) -> bool:
        """Whether a reported prompt is so small that the server must have dropped a part of it; see `PromptCounts`."""
        return self._counts.show_cut(usage, sent, least, known_window=known_window)

    def known_to_fit(self, usage: Usage) -> int:
        """Tokens of the window that are there for certain, when a part of the prompt was dropped."""
        return self._counts.known_to_fit(usage)

    def observe(self, usage: Usage, sent: Sent) -> None:
        """Takes what a step reported, before its answer is added. A prompt of no tokens is none that was counted, as
        with servers that fill in a 0: what was known before goes on to count."""
        if not usage.prompt_tokens:
            return
        self.calibration = self.calibration.observe(sent.estimated, usage.prompt_tokens)
        self._counts = self._counts.with_report(usage, sent)
        self._reported, self._later_tokens = usage, 0
        self._observed = True

    def recounted(self, prompt_tokens: int) -> None:
        """Takes the provider's own count of the next request, made for its sake; 0 is none."""
        if not prompt_tokens:
            return
        self._reported, self._later_tokens = Usage(input_tokens=prompt_tokens), 0

    def answered(self) -> None:
        """The answer has been added; its tokens are in the reported usage and must not count twice."""
        if self._observed:
            self._later_tokens = 0
        self._observed = False

    def state(self, budget: Budget, estimated: int) -> ContextState:
        """The context's size: what was reported and what came after it, or the estimate of all."""
        if self._reported is not None:
            later = self.calibration.apply(self._later_tokens)
            return context_state(budget, context_tokens(self._reported, later), reported=True)
        return context_state(budget, self.calibration.apply(estimated), reported=False)
