"""What a run will do, made from its seed alone: its sessions, what their users do, and which faults come."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

FaultKind = Literal[
    "kill",
    "term",
    "freeze",
    "full_disk",
    "full_disk_kill",
    "clock",
    "kill_command",
    "kill_container",
    "provider_resets",
    "provider_stalls",
    "provider_429",
    "provider_500",
]
FAULTS: tuple[FaultKind, ...] = get_args(FaultKind)

ENDS_SERVER: frozenset[FaultKind] = frozenset({"kill", "term", "full_disk_kill"})
"""Faults after which a new life of the server begins."""
CALM_FROM = 2 / 3
"""Share of a run after which no new life begins, so that what a server loses in memory or descriptors has time to
show."""

DeedKind = Literal[
    "steer",
    "follow_up",
    "interrupt",
    "burst",
    "edit",
    "withdraw",
    "cancel",
    "cancel_and_clear",
    "resume",
    "compact",
    "revert",
    "patch",
    "upload",
    "look",
]
_DEED_WEIGHTS: dict[DeedKind, float] = {
    "steer": 5,
    "follow_up": 2,
    "interrupt": 2,
    "burst": 1,
    "edit": 2,
    "withdraw": 1.5,
    "cancel": 1.5,
    "cancel_and_clear": 0.5,
    "resume": 1,
    "compact": 1.5,
    "revert": 0.5,
    "patch": 0.5,
    "upload": 0.5,
    "look": 2,
}
DEEDS: tuple[DeedKind, ...] = get_args(DeedKind)

ReaderKind = Literal["steady", "slow", "vanishing"]
MODELS = ("soak-openai/large", "soak-openai/small", "soak-anthropic/large", "soak-anthropic/small")
POLICIES = ("reactive", "threshold", "handoff")
WARM = "warm-"
"""How the names of sessions begin that only warm the server up."""
WARM_DEEDS = 4
"""Deeds of each of them; four sessions have done one of each kind."""
SMALL_MODELS = tuple(name for name in MODELS if name.endswith("small"))
LIFE_S = 4.0
"""The longest life of a server that is killed again and again, in seconds after its first answer: some steps, and
little more."""
RECOVERING_S = 0.3
"""How long after its first answer a server is still putting right what the last one left."""
PAUSE_S = 1.5
"""The longest pause of a user between two deeds."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault `at_s` seconds after the start, for `seconds` where it lasts; `pick`, from 0 to 1, chooses its victim or
    its size."""

    at_s: float
    kind: FaultKind
    seconds: float
    pick: float


@dataclass(frozen=True, slots=True)
class Deed:
    """Something that a user does, `after_s` seconds after the deed before; `pick` chooses what it is done to."""

    after_s: float
    kind: DeedKind
    pick: float


@dataclass(frozen=True, slots=True)
class SessionPlan:
    """One session: its name, which is in all its messages, how it is made, who reads it and what its user does."""

    name: str
    model: str
    policy: str
    deeds: tuple[Deed, ...]
    readers: tuple[ReaderKind, ...]
    is_deleted: bool


def faults_of(seed: int, seconds: float, gap_s: float, kinds: Collection[FaultKind]) -> tuple[Fault, ...]:
    """The faults of a run of so many seconds, about `gap_s` apart; each kind comes once before one comes twice. The
    server is killed first, so that the shortest run has a second life."""
    rng = random.Random(f"{seed}/faults")
    faults: list[Fault] = []
    at = gap_s / 2
    while at < seconds:
        kinds_in_turn = rng.sample(FAULTS, len(FAULTS))
        if not faults:
            kinds_in_turn.sort(key=lambda kind: kind != "kill")
        for kind in kinds_in_turn:
            lasting, pick, gap = rng.uniform(0.5, 4), rng.random(), rng.uniform(0.5, 1.5) * gap_s
            # Left out or not, a kind takes its turn, so that the others are the same on every machine.
            if kind in kinds and not (kind in ENDS_SERVER and at > seconds * CALM_FROM):
                faults.append(Fault(round(at, 2), kind, round(lasting, 2), pick))
            at += gap
    return tuple(fault for fault in faults if fault.at_s < seconds)


def kills_of(seed: int) -> Iterator[float]:
    """Seconds until each kill of a server, or try of one, without an end; a third of those after a start come while
    it still recovers."""
    rng = random.Random(f"{seed}/kills")
    while True:
        yield round(rng.uniform(0, RECOVERING_S if rng.random() < 1 / 3 else LIFE_S), 3)


def sessions_of(seed: int, slot: int, models: Sequence[str] = MODELS) -> Iterator[SessionPlan]:
    """The sessions that one slot works through, one after the other, without an end."""
    number = 0
    while True:
        yield _session(random.Random(f"{seed}/{slot}/{number}"), f"s{slot}-{number}", models)
        number += 1


def warm_ups(count: int) -> tuple[SessionPlan, ...]:
    """So many sessions that do a little of everything, all at once: afterwards a server has loaded what it loads once,
    and has the threads and connections that it will ever have."""
    return tuple(_warm_up(number) for number in range(count))


def _warm_up(number: int) -> SessionPlan:
    kinds = (DEEDS[(WARM_DEEDS * number + place) % len(DEEDS)] for place in range(WARM_DEEDS))
    deeds = tuple(Deed(0.1, kind, 0.5) for kind in kinds)
    model, policy = MODELS[number % len(MODELS)], POLICIES[number % len(POLICIES)]
    return SessionPlan(f"{WARM}{number}", model, policy, deeds, ("steady", "vanishing"), is_deleted=number % 4 == 3)


def _session(rng: random.Random, name: str, models: Sequence[str]) -> SessionPlan:
    kinds = rng.choices(list(_DEED_WEIGHTS), list(_DEED_WEIGHTS.values()), k=rng.randint(2, 9))
    readers: list[ReaderKind] = ["steady"]
    readers += rng.choices(get_args(ReaderKind), (1, 2, 2), k=rng.randint(0, 2))
    return SessionPlan(
        name,
        rng.choice(models),
        rng.choice(POLICIES),
        tuple(Deed(round(rng.uniform(0, PAUSE_S), 3), kind, rng.random()) for kind in kinds),
        tuple(readers),
        is_deleted=rng.random() < 0.15,
    )
