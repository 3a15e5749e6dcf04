"""The soak rig's plan: the same seed gives the same sessions and faults."""

from __future__ import annotations

from itertools import islice, pairwise

from tests.soak.plan import DEEDS, ENDS_SERVER, FAULTS, FaultKind, faults_of, sessions_of


def test_a_seed_draws_the_same_plan_again() -> None:
    assert faults_of(7, 600, 4, FAULTS) == faults_of(7, 600, 4, FAULTS)
    assert faults_of(7, 600, 4, FAULTS) != faults_of(8, 600, 4, FAULTS)
    assert list(islice(sessions_of(7, 3), 5)) == list(islice(sessions_of(7, 3), 5))
    assert list(islice(sessions_of(7, 3), 5)) != list(islice(sessions_of(7, 4), 5))


def test_every_kind_of_fault_and_deed_comes() -> None:
    faults = faults_of(1, 600, 4, FAULTS)
    assert {fault.kind for fault in faults} == set(FAULTS)
    assert all(0 <= one.at_s <= other.at_s < 600 for one, other in pairwise(faults))
    deeds = {deed.kind for slot in range(20) for plan in islice(sessions_of(1, slot), 5) for deed in plan.deeds}
    assert deeds == set(DEEDS)


def test_the_server_is_killed_first() -> None:
    assert {faults_of(seed, 45, 4, FAULTS)[0].kind for seed in range(50)} == {"kill"}


def test_the_server_is_not_ended_in_the_last_third() -> None:
    faults = faults_of(1, 600, 4, FAULTS)
    assert {fault.kind for fault in faults if fault.at_s > 400} == set(FAULTS) - ENDS_SERVER


def test_a_kind_that_cannot_be_caused_is_left_out() -> None:
    some: tuple[FaultKind, ...] = ("kill", "freeze")
    assert {fault.kind for fault in faults_of(1, 600, 4, some)} == set(some)
    assert {fault.kind for fault in faults_of(1, 60, 4, some[:1])} == {"kill"}
