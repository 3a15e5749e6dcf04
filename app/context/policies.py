"""Compaction settings: every number that decides when and how a context is made smaller, and a preset per policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, ValidationError

from app.errors import InvalidRequestError
from app.messages import Value

Policy = Literal["reactive", "threshold", "handoff"]
POLICIES: tuple[Policy, ...] = get_args(Policy)


def _number(value: Any) -> Any:
    """Rejects booleans and strings such as "50"."""
    if isinstance(value, bool | str):
        raise ValueError("must be a number")
    return value


Whole = Annotated[int, BeforeValidator(_number)]
Tokens = Annotated[Whole, Field(ge=0, le=100_000_000)]
"""A number of tokens or characters; the limit is above any model's window and keeps the JSON readable everywhere."""


def _as_fraction(value: float) -> float:
    return value / 100 if value > 1 else value


Fraction = Annotated[
    float, Field(gt=0, le=100, allow_inf_nan=False), BeforeValidator(_number), AfterValidator(_as_fraction)
]


class CompactionSettings(Value):
    """How one session's context is kept within the model's window.

    None in a numeric field means that the number is derived from the model's window. Sizes are in tokens unless noted
    otherwise.
    """

    policy: Policy = Field("reactive", description="The preset that the other settings start from.")
    auto: StrictBool = Field(
        True,
        description="Make the context smaller before it is full. If false, only a manual compaction or a refusal by the"
        " provider does.",
    )
    clear_first: StrictBool = Field(
        False,
        description="`reactive`: clear old tool output at the trigger, and summarize only if that is not enough. What"
        " is cleared is in no later summary. Giving `prune_protect` or `prune_minimum` turns it on.",
    )
    prune_at_end: StrictBool = Field(
        True,
        description="With `clear_first`, also clear old tool output at the end of a run if the trigger is near; needs"
        " `auto`.",
    )
    model: str | None = Field(
        None, min_length=1, max_length=200, description="Model that writes summaries; null is the session's own."
    )
    threshold_percent: Fraction = Field(
        0.8,
        description="`threshold`: share of the available tokens at which a summary is due, as 0.8 or 80.",
    )
    system_reserve: Tokens = Field(2_000, description="`threshold`: tokens set aside for system prompt and tools.")
    safety_buffer: Tokens | None = Field(
        None, description="Tokens kept free for estimation errors; null is 2 % of the window."
    )
    recent_messages_to_keep: Whole = Field(
        10,
        ge=1,
        le=10_000,
        description="`threshold`: newest messages that stay verbatim; unless given, fewer if they take more than a"
        " fifth of the trigger.",
    )
    prune_protect: Tokens | None = Field(
        None, description="Newest tool output, in tokens, that is never cleared; null is 40,000, less in small windows."
    )
    prune_minimum: Tokens | None = Field(
        None,
        description="Old tool output is cleared only if it frees this many tokens; null is 20,000, less in small"
        " windows.",
    )
    prune_exempt_tools: tuple[str, ...] = Field(
        ("recall", "memory_read", "update_plan"), max_length=100, description="Tools whose output is never cleared."
    )
    min_turns_to_keep: Whole = Field(2, ge=0, le=10_000, description="Newest turns that stay verbatim and unpruned.")
    output_reserve: Annotated[Whole, Field(ge=1, le=100_000_000)] | None = Field(
        None,
        description="Output tokens requested per step and kept free for it; null is the smallest of the model's"
        " maximum, 32,000 and a quarter of the window.",
    )
    tail_tokens: Tokens | None = Field(
        None,
        description="Minimum size of the verbatim tail; null is 8 % of usable, between 2,000 and 6,000, and with"
        " `clear_first` 25 %, between 2,000 and 15,000.",
    )
    handoff_threshold: Tokens = Field(
        200_000, description="`handoff`: tokens of the last call at which a summary is due; 0 disables this trigger."
    )
    summary_max_tokens: Annotated[Whole, Field(ge=1, le=100_000_000)] | None = Field(
        2_000, description="Longest summary, without reasoning; null is 4,000. Never above a quarter of the window."
    )
    summary_temperature: Annotated[float, BeforeValidator(_number)] | None = Field(
        None, ge=0, le=2, allow_inf_nan=False, description="Temperature of the summary; null sends none."
    )
    clip_chars: Whole = Field(
        30_000,
        ge=100,
        le=100_000_000,
        description="Characters of one tool output that the model sees, head and tail together.",
    )
    profile: Literal["coding", "content"] = Field("coding", description="What a summary focuses on.")
    background: StrictBool = Field(
        True,
        description="Prepare the summary while the agent works, so that it need not wait; an unneeded summary is"
        " billed as well.",
    )
    recount_probe: StrictBool = Field(
        False,
        description="`handoff`: count the new context with a 16-token call instead of waiting for the next step.",
    )

    given: tuple[str, ...] | None = Field(
        None, description="Names of the settings that a person gave, whatever their values; null where that is unknown."
    )

    @property
    def per_message(self) -> int:
        """Tokens counted for a message in addition to its parts."""
        return 2 if self.policy == "threshold" else 4


PRESETS: Mapping[Policy, Mapping[str, Any]] = {
    "reactive": {},
    "threshold": {
        "output_reserve": 4_000,
        "safety_buffer": 5_000,
        "summary_max_tokens": 1_000,
        "summary_temperature": 0.3,
    },
    "handoff": {"summary_max_tokens": None},
}
"""What each policy sets differently from the fields' defaults."""


VARIANTS: Mapping[str, Mapping[str, Any]] = {"seed-reactive": {"policy": "reactive", "clear_first": True}}
"""Further names that a request may give for a policy with other settings."""
POLICY_NAMES: tuple[str, ...] = (*POLICIES, *VARIANTS)

_CLEARING = ("prune_protect", "prune_minimum")
"""Settings that, given for `reactive`, ask for outputs to be cleared."""


def preset(policy: Policy) -> CompactionSettings:
    """The settings of a policy's name alone."""
    return CompactionSettings(policy=policy, given=(), **PRESETS[policy])


DEFAULT = preset("reactive")

MAX_ERRORS, MAX_ERROR_CHARS = 20, 200
"""Maximum errors that a refusal lists, and characters of a field's name in it: both come from the request."""


def resolve(value: str | Mapping[str, Any] | None, base: CompactionSettings = DEFAULT) -> CompactionSettings:
    """A request's `compaction` merged over `base`: the server's default for a new session, the session's current
    settings for a change or a round.

    None changes nothing. If the policy changes, its preset replaces the old one's, and settings that were given for
    `base` stay. Raises `InvalidRequestError` (code `invalid_compaction`) whose `errors` list everything
    that is wrong, each with its `field` and a `message`, and whose `field` is the first of them.
    """
    if value is None:
        return base
    asked = {"policy": value} if isinstance(value, str) else value
    if not isinstance(asked, Mapping):
        raise _refusal([("compaction", "must be a policy's name or an object")])
    asked = _spelled_out(asked)
    policy = asked.get("policy", base.policy)
    known = policy if policy in POLICIES else base.policy
    if known == "reactive" and any(asked.get(name) is not None for name in _CLEARING):
        asked = {"clear_first": True, **asked}
    errors = [] if policy == known else [("compaction.policy", f"must be one of {', '.join(POLICY_NAMES)}")]
    if "given" in asked:
        errors.append(("compaction.given", "Unknown setting"))
    values = {**given_settings(base), **asked}
    names = tuple(sorted(map(str, values.keys() - {"policy", "given"})))
    try:
        settings = CompactionSettings.model_validate({**PRESETS[known], **values, "policy": known, "given": names})
    except ValidationError as exc:
        raise _refusal([*errors, *_errors(exc)]) from exc
    if errors:
        raise _refusal(errors)
    return settings


def _spelled_out(asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """The request with a variant's name replaced by what it stands for; its other settings win."""
    name = asked.get("policy")
    variant = VARIANTS.get(name, {}) if isinstance(name, str) else {}
    return {**variant, **asked, "policy": variant["policy"]} if variant else asked


def _errors(error: ValidationError) -> list[tuple[str, str]]:
    """Field and message of each error."""
    return [
        (".".join(["compaction", *map(str, each["loc"])])[:MAX_ERROR_CHARS], _words(each["type"], each["msg"]))
        for each in error.errors(include_url=False, include_input=False)[:MAX_ERRORS]
    ]


def _words(kind: str, message: str) -> str:
    """The message, replacing pydantic's wording where that refers to its internals."""
    if kind == "extra_forbidden":
        return "Unknown setting"
    return message.removeprefix("Value error, ")


def public(settings: CompactionSettings) -> dict[str, Any]:
    """The settings as a session shows them, as JSON values and without the policy's name."""
    return settings.model_dump(mode="json", exclude={"policy", "given"})


def given_settings(settings: CompactionSettings) -> dict[str, Any]:
    """The settings that a person gave; of a session from before these were kept, those that differ from its preset."""
    usual, given = preset(settings.policy), settings.given
    values = ((name, value) for name, value in settings if name not in ("policy", "given"))
    return {
        name: value for name, value in values if (value != getattr(usual, name) if given is None else name in given)
    }


def _refusal(errors: Sequence[tuple[str, str]]) -> InvalidRequestError:
    return InvalidRequestError(
        "; ".join(f"{field}: {message}" for field, message in errors),
        code="invalid_compaction",
        field=errors[0][0],
        errors=[{"field": field, "message": message} for field, message in errors],
    )
