"""How many tokens a context may have: the model's window minus the room for the answer and for estimation errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from app.context.policies import CompactionSettings
from app.llm.base import LEAST_WINDOW, ModelInfo, WindowSource
from app.messages import Usage
from app.sessions import ContextState

OUTPUT_CEILING = 32_000
"""Maximum output tokens requested per step unless a setting says otherwise; longer answers are rare and cost
context."""

SAFETY_SHARE = 0.02
"""Share of the window kept free unless `safety_buffer` is set."""

SMALL_WINDOW = 32_768
"""Up to this window, fixed reserves would leave little room, so together they get a quarter of it."""

LEAN_WINDOW = 8_192
"""Up to this window the system text is the short one, a session that names no tools gets few, and the shares for a
summary, its facts and a step's results are smaller: local servers start with 2,048 to 8,192 tokens."""

SMALL_OUTPUT_SHARE = 0.6
"""Minimum share of a small window's reserves for the answer, in case the fixed reserves were chosen for large windows:
307 tokens of a window of 2,048."""

MOST_RESERVED = 0.9
"""Maximum share of a larger window for all reserves together, whatever the settings say."""

LEAST_OUTPUT, LEAST_OUTPUT_SHARE = 1_024, 0.25
"""Tokens, or share of the output reserve if that is less, below which a smaller output reserve is no help: the answer
would be cut off, and a smaller context is better."""

TAIL_SHARE, CLEARED_TAIL_SHARE = 0.08, 0.25
"""Share of usable for the minimum size of the verbatim tail, within the next limits. The larger one applies with
`clear_first`: old outputs in such a tail are cleared, so it takes less room than it has tokens."""

TAIL_FLOOR, TAIL_CEILING, CLEARED_TAIL_CEILING = 2_000, 6_000, 15_000
"""Tokens between which the tail's minimum size lies: a few steps. What stays verbatim is paid in each step until the
next round: with 4,000 instead of 12,000 tokens, a session in a window of 64,000 costs a sixth less."""

RECENT_SHARE = 0.2
"""Maximum share of `threshold`'s trigger for its usual ten messages: if they were kept at any size, a session in a
window of 48,000 would cost a tenth more."""

TAIL_MOST = 0.4
"""Maximum share of usable for the tail, so that a summary, the task and some work fit next to it."""

PRUNE_PROTECT, PRUNE_MINIMUM = 40_000, 20_000
"""Tokens of newest output that are never cleared, and that clearing must free, unless set; from the designs."""

PRUNE_ROOM = 0.75
"""Maximum share of usable for both together: they suit windows from about 110,000 tokens."""

SMALL_PRUNE_PROTECT, SMALL_PRUNE_MINIMUM = 0.3, 0.15
"""Shares of usable that replace larger defaults in small windows."""

STEP_OUTPUT_SHARE, LEAN_STEP_OUTPUT_SHARE = 0.25, 0.15
"""Maximum share of usable for all results of one step: a quarter never fills a context, and in a lean window two steps
must fit next to the fixed part."""

FACTS_SHARE, LEAN_FACTS_SHARE = 0.25, 0.15
"""Maximum share of usable for a summary's facts and old user messages."""

LEAN_SUMMARY_SHARE = 0.15
"""Maximum share of usable for a summary's prose in a lean window."""

BelievedSource = WindowSource | Literal["learned"]
"""Where the window of a budget comes from."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A model's window and its division, in tokens.

    `output_reserve` is also the output limit sent with a step. `system_reserve` counts only under the policy
    `threshold` and is not subtracted from `usable`. `source` says where `limit` comes from.
    """

    limit: int
    output_reserve: int
    safety_buffer: int
    usable: int
    source: BelievedSource
    system_reserve: int = 0

    @property
    def small(self) -> bool:
        """Whether the shares for small windows apply."""
        return self.limit <= SMALL_WINDOW

    @property
    def lean(self) -> bool:
        """Whether system text, tools and summaries are those for the smallest windows."""
        return self.limit <= LEAN_WINDOW

    @property
    def step_output(self) -> int:
        """Maximum tokens of all results of one step."""
        return int(self.usable * (LEAN_STEP_OUTPUT_SHARE if self.lean else STEP_OUTPUT_SHARE))

    @property
    def facts(self) -> int:
        """Maximum tokens of a summary's facts."""
        return int(self.usable * (LEAN_FACTS_SHARE if self.lean else FACTS_SHARE))

    def summary_cap(self, wanted: int) -> int:
        """Maximum tokens of a summary's prose if the settings allow `wanted`."""
        return min(wanted, int(self.usable * LEAN_SUMMARY_SHARE)) if self.lean else wanted


@dataclass(frozen=True, slots=True)
class TailBounds:
    """Tokens of the newest messages that stay verbatim: at least `least` if there are that many, at most `most`."""

    least: int
    most: int


@dataclass(frozen=True, slots=True)
class PruneBounds:
    """Tokens of tool output: the newest `protect` are never cleared, and nothing is cleared to free less than
    `minimum`."""

    protect: int
    minimum: int


def make_budget(info: ModelInfo, settings: CompactionSettings, learned_limit: int | None = None) -> Budget:
    """The budget of a model under these settings; `0 < usable < limit` for any window of 1,024 tokens or more.

    `learned_limit` is the window that the provider named in an overflow error.
    """
    limit, source = believed_window(info, learned_limit)
    output, system, safety = _fit(limit, _output(info, settings, limit), _system(settings), _safety(settings, limit))
    output = max(1, output)
    return Budget(
        limit=limit,
        output_reserve=output,
        safety_buffer=safety,
        usable=limit - output - safety,
        source=source,
        system_reserve=system,
    )


def believed_window(info: ModelInfo, learned: int | None) -> tuple[int, BelievedSource]:
    """A model's window in tokens, and where the number comes from; `learned` is what refusals have taught.

    An operator's own limit may be below the real one on purpose, and a server knows what it serves, so only a smaller
    number overrides these two.
    """
    if learned is None or learned < LEAST_WINDOW:
        return info.context_window, info.window_source
    if info.window_source in ("setting", "server") and learned >= info.context_window:
        return info.context_window, info.window_source
    return learned, "learned"


def trigger(budget: Budget, settings: CompactionSettings) -> int:
    """The context size at which the policy acts, never above usable. `reactive` acts above it, the others at it.

    With its defaults, `threshold` gives 93,600 for a window of 128,000.
    """
    match settings.policy:
        case "threshold":
            return int((budget.usable - budget.system_reserve) * settings.threshold_percent)
        case "handoff":
            return min(settings.handoff_threshold or budget.usable, budget.usable)
    return budget.usable


def less_output(budget: Budget, limit: int, prompt_tokens: int) -> int | None:
    """The output tokens to request after a provider counted the prompt and said that prompt and output exceed its
    window of `limit`; None if that is not less than before, or too little to answer in."""
    room = limit - prompt_tokens - budget.safety_buffer
    least = max(1, min(LEAST_OUTPUT, int(budget.output_reserve * LEAST_OUTPUT_SHARE)))
    return room if least <= room < budget.output_reserve else None


def tail_bounds(budget: Budget, settings: CompactionSettings) -> TailBounds:
    """How large the verbatim tail is: 8 % of usable within 2,000 and 6,000, with `clear_first` 25 % within 2,000 and
    15,000, or `tail_tokens`; never above 40 %."""
    most = int(budget.usable * TAIL_MOST)
    share, ceiling = TAIL_SHARE, TAIL_CEILING
    if settings.clear_first:
        share, ceiling = CLEARED_TAIL_SHARE, CLEARED_TAIL_CEILING
    least = min(ceiling, max(TAIL_FLOOR, int(budget.usable * share)))
    return TailBounds(min(most, least if settings.tail_tokens is None else settings.tail_tokens), most)


def prune_bounds(budget: Budget, settings: CompactionSettings) -> PruneBounds:
    """The prune settings, as given. Defaults are at most 30 % and 15 % of usable in small windows, and in those where
    the two together would leave almost nothing to clear."""
    protect, minimum = PRUNE_PROTECT, PRUNE_MINIMUM
    if budget.small or protect + minimum > PRUNE_ROOM * budget.usable:
        protect = min(protect, int(budget.usable * SMALL_PRUNE_PROTECT))
        minimum = min(minimum, int(budget.usable * SMALL_PRUNE_MINIMUM))
    return PruneBounds(
        protect if settings.prune_protect is None else settings.prune_protect,
        minimum if settings.prune_minimum is None else settings.prune_minimum,
    )


def context_tokens(last_usage: Usage | None, later_tokens: int) -> int:
    """Actual tokens of the context: what the last step read (including cached tokens) and wrote, plus the estimate of
    what came after it. Without a report, `later_tokens` is the estimate of the whole context."""
    return later_tokens + (last_usage.total_tokens if last_usage else 0)


def context_state(budget: Budget, tokens: int, reported: bool) -> ContextState:
    """The public figure; `assumed` if the window is a guess, since then every share of it is uncertain."""
    if budget.source == "assumed":
        return ContextState(tokens=tokens, limit=budget.limit, usable=budget.usable, source="assumed")
    source: Literal["reported", "estimated"] = "reported" if reported else "estimated"
    return ContextState(tokens=tokens, limit=budget.limit, usable=budget.usable, source=source)


def _system(settings: CompactionSettings) -> int:
    return settings.system_reserve if settings.policy == "threshold" else 0


def _output(info: ModelInfo, settings: CompactionSettings, limit: int) -> int:
    wanted = min(OUTPUT_CEILING, limit // 4) if settings.output_reserve is None else settings.output_reserve
    return min(wanted, info.max_output_tokens or wanted)


def _safety(settings: CompactionSettings, limit: int) -> int:
    return int(limit * SAFETY_SHARE) if settings.safety_buffer is None else settings.safety_buffer


def _fit(limit: int, output: int, *others: int) -> list[int]:
    """The reserves, shrunk in proportion if together they are too large for the window; in a small window the answer
    gets its share first."""
    small = limit <= SMALL_WINDOW
    room = limit // 4 if small else int(limit * MOST_RESERVED)
    total = output + sum(others)
    if total <= room:
        return [output, *others]
    least = min(output, int(room * SMALL_OUTPUT_SHARE)) if small else 0
    if output * room // total >= least:
        return [reserve * room // total for reserve in (output, *others)]
    return [least, *(reserve * (room - least) // (total - output) for reserve in others)]
