"""The size of a context, by its provider's reports and by Palimpsest's own estimate."""

from __future__ import annotations

from collections.abc import Mapping

from app.context.budget import Budget, context_state, context_tokens
from app.context.projection import Transcript
from app.context.tokens import Calibration
from app.context.truncation import LeastTokens, PromptCounts, Sent, may_shrink
from app.messages import Message, Usage
from app.sessions import ContextState


class Gauge:
    """Tracks one conversation; the transcript passed to each method makes its next request. `calibration` corrects raw
    estimates for its model."""

    def __init__(self, model: str | None, calibration: Calibration, reported: Usage | None, later_tokens: int) -> None:
        """`calibration` belongs to `model`. `reported` is what the provider reported for the last step, and
        `later_tokens` the estimate of what came after it."""
        self.calibration = calibration
        self._model = model
        self._left: dict[str, Calibration] = {}
        self._reported = reported
        self._later_tokens = later_tokens
        self._counts = PromptCounts()
        self._observed = False
        self._least: LeastTokens | None = None
        self._least_of: Transcript | None = None

    def take_model(self, model: str, calibration: Calibration) -> None:
        """Switches to this model's counts. What was learned about the previous model is kept; if this one was used
        before, its learned calibration is used instead of `calibration`."""
        if self._model is not None and self._model != model:
            self._left[self._model] = self.calibration
            self.calibration = self._left.pop(model, calibration)
        self._model = model

    def take_calibrations(self) -> Mapping[str, Calibration]:
        """The calibrations of all models counted since the last call."""
        left, self._left = self._left, {}
        return left if self._model is None else {**left, self._model: self.calibration}

    def forget(self) -> None:
        """The context was rebuilt: earlier reports do not apply to it."""
        self._reported = None
        self._counts = PromptCounts()

    def append(self, message: Message, transcript: Transcript) -> None:
        """Adds the history's next message to the transcript."""
        if may_shrink(transcript.messages, message):
            # The next request may count fewer tokens than the last one.
            self._counts = PromptCounts()
        before = transcript.tokens
        transcript.append(message)
        self._later_tokens += transcript.tokens - before

    def was_truncated(self, usage: Usage, transcript: Transcript, *, known_window: bool) -> bool:
        """Whether a reported prompt is so small that the server must have dropped part of it; see `PromptCounts`."""

        def least_since(number: int) -> int:
            if self._least is None or self._least_of is not transcript:
                self._least, self._least_of = LeastTokens(transcript.generation), transcript
            return self._least.since(number, transcript.messages)

        return self._counts.show_cut(usage, _sent(transcript), least_since, known_window=known_window)

    def known_to_fit(self, usage: Usage) -> int:
        """Tokens of the window that are certain to exist after part of the prompt was dropped."""
        return self._counts.known_to_fit(usage)

    def observe(self, usage: Usage, transcript: Transcript) -> None:
        """Record what a step reported, before its answer is added. A prompt of 0 tokens was not counted (some servers
        fill in a 0); the earlier report stays valid then."""
        if not usage.prompt_tokens:
            return
        sent = _sent(transcript)
        self.calibration = self.calibration.observe(sent.estimated, usage.prompt_tokens)
        self._counts = self._counts.with_report(usage, sent)
        self._reported, self._later_tokens = usage, 0
        self._observed = True

    def recounted(self, prompt_tokens: int) -> None:
        """Record the provider's own count of the next request; 0 means that it has none."""
        if not prompt_tokens:
            return
        self._reported, self._later_tokens = Usage(input_tokens=prompt_tokens), 0

    def answered(self) -> None:
        """The answer was added; its tokens are part of the reported usage and must not count twice."""
        if self._observed:
            self._later_tokens = 0
        self._observed = False

    def state(self, budget: Budget, transcript: Transcript) -> ContextState:
        """The context's size: the reported usage plus what came after it, or an estimate of everything."""
        if self._reported is not None:
            later = self.calibration.apply(self._later_tokens)
            return context_state(budget, context_tokens(self._reported, later), reported=True)
        return context_state(budget, self.calibration.apply(transcript.request_tokens), reported=False)


def _sent(transcript: Transcript) -> Sent:
    return Sent(transcript.request_tokens, len(transcript.messages))
