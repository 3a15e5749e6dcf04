"""The workflow of a session: as long as there is work, some worker owns the session.

Its code runs again on histories of earlier versions: a change of what it does in which order goes behind
`workflow.patched`, and `tests/cluster/histories` keeps histories that it must still follow.

How long a session of a lost worker waits for its next step, in seconds, at most (`docs/decisions/0106`):

| | killed | frozen | frozen, and no other worker has two free slots |
| --- | --- | --- | --- |
| until the engine gives up the worker: `HEARTBEAT_TIMEOUT` | 3.0 | 3.0 | 3.0 |
| the decision was given to the frozen worker: `TASK_TIMEOUT` | | 1.5 | 1.5 |
| the session was given to the frozen worker: `HEARTBEAT_TIMEOUT` | | | 3.0 |
| two decisions and a claim, on a machine with a free core | 0.4 | 0.4 | 0.4 |
| all | 3.4 | 4.9 | 7.9 |

A frozen worker has one poller for decisions and one for sessions, so that each is met once. The engine's timers of more
than a second are exact. Locks in the database end earlier, after `IDLE_WRITE_MS`. What comes in addition is CPU time: a
worker needs about 0.1 s for each of the sessions that it gets at the same time.
"""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutError

NAME = "palimpsest-session"
OWN = "own"
RING = "ring"
DRAINING = "draining"
"""The type of the error of a worker that is about to stop: it was given the session in its last moments."""

TASK_TIMEOUT = timedelta(seconds=1.5)
"""How long a worker may take for one decision of a workflow: that takes milliseconds, or a second on an overloaded
machine. A decision may be given to a frozen worker; after this time another one gets it. If that one is late too, the
engine waits for several seconds."""

HEARTBEAT_TIMEOUT = timedelta(seconds=3)
"""How long a worker may be silent before another one gets its session."""

TENURE = timedelta(days=365)
"""How long one owner may own a session. The engine requires a limit; the next owner would continue."""

ONCE = RetryPolicy(maximum_attempts=1)
"""The engine's own retries wait for a timer, which fires up to a second late; the workflow's next activity does not."""

WAIT_S, MOST_WAIT_S = 0.1, 5.0
"""Seconds until the next owner after a failure, such as of the database, doubled each time; and the most of them."""

MOST_EVENTS = 2000
"""Events of a history after which it begins anew: a tenure has about ten."""

USUAL_EVENTS = 50
"""The same unless the last owner failed or was lost: a new history would forget how many failed, and takes a decision
more. Each decision follows the whole history: with a few hundred events, as of messages that a program sends in a row,
this cost more than the rest of the run."""

SHORT_HISTORIES = "short-histories"


def session_workflow_id(session_id: str) -> str:
    return f"session-{session_id}"


@workflow.defn(name=NAME)
class SessionWorkflow:
    """Has a session owned until it is idle. A ring says that there may be more work by then."""

    def __init__(self) -> None:
        self._rung = False
        self._failures = 0
        self._is_lost = False
        """Whether the engine gave up the last owner."""

    @workflow.signal(name=RING)
    def ring(self) -> None:
        """There is work for the session."""
        self._rung = True

    @workflow.run
    async def run(self, session_id: str) -> None:
        more = True
        while more or self._rung:
            self._rung = False
            more = await self._own(session_id)
            if (more or self._rung) and self._begins_anew():
                workflow.continue_as_new(session_id)

    async def _own(self, session_id: str) -> bool:
        """Has some worker own the session; returns whether it still has work."""
        self._is_lost = False
        try:
            more: bool = await workflow.execute_activity(
                OWN,
                session_id,
                result_type=bool,
                start_to_close_timeout=TENURE,
                heartbeat_timeout=HEARTBEAT_TIMEOUT,
                retry_policy=ONCE,
                # A canceled workflow need not wait: the next owner claims the session anyway.
                cancellation_type=workflow.ActivityCancellationType.ABANDON,
            )
        except ActivityError as error:
            if isinstance(error.cause, TimeoutError):
                # Its worker is gone: another one continues at once.
                self._is_lost = True
                return True
            if _drains(error) and not self._failures:
                # It asks for no more sessions by now. Only a second refusal waits, in case that all workers stop.
                self._failures = 1
                return True
            await workflow.sleep(min(WAIT_S * 2**self._failures, MOST_WAIT_S))
            self._failures = min(self._failures + 1, 10)
            return True
        self._failures = 0
        return more

    def _begins_anew(self) -> bool:
        events = workflow.info().get_current_history_length()
        if events > MOST_EVENTS:
            return True
        goes_well = not (self._failures or self._is_lost)
        return goes_well and events > USUAL_EVENTS and workflow.patched(SHORT_HISTORIES)


def _drains(error: ActivityError) -> bool:
    return isinstance(error.cause, ApplicationError) and error.cause.type == DRAINING
