"""Carries out an open round: from its notes up the ladder to its commit."""

from __future__ import annotations

from dataclasses import replace

from app.agent.apart import apart
from app.agent.changes import RoundEnded
from app.agent.interrupt import Stopped
from app.agent.round_setup import RoundSetup
from app.agent.rounds import Candidate, Room, Round
from app.context.selection import Selection
from app.messages import Usage
from app.sessions import Rung


class RoundMaker:
    """Makes the rounds of one conversation."""

    def __init__(self, setup: RoundSetup) -> None:
        self._setup = setup
        self._usage = Usage()

    def take_usage(self) -> Usage:
        """Usage of its model calls since the last call."""
        usage, self._usage = self._usage, Usage()
        return usage

    async def make(self, round: Round, covered: Selection, *, start: Rung = "summary") -> Candidate | Room:
        """Takes a round through the ladder: returns the resulting context, or what happened instead. A cancel leaves
        everything unchanged. The notes are read first, so that what is measured is what will be sent; model, tools and
        budget stay those that the round began with."""
        setup = self._setup
        summarizer = setup.ladder.summarizer(round.number)
        try:
            config = await setup.interrupt.guard(setup.refreshed(round.config), patient=True)
            round = replace(round, config=config)
            climb = setup.ladder.climb(round, covered, summarizer, start=start)
            made = await setup.interrupt.guard(climb, insist=True, patient=True)
        except Stopped:
            await setup.sink.record(RoundEnded(round.number, "cancelled"))
            return Room.STOPPED
        finally:
            self._usage = self._usage + summarizer.usage
        if made is None:
            return Room.NONE
        return made if await self.commit(round, made) else Room.REVERTED

    async def commit(self, round: Round, made: Candidate) -> bool:
        """Makes a candidate the context, and its notes the session's; see `Ladder.commit`. The notes come first: after
        a crash in between, the next step takes them in."""
        await self._setup.taken()
        made = await self._recounted(round, made)
        if not await self._setup.ladder.commit(round, made):
            await self._setup.reread()
            return False
        if made.counted:
            self._setup.conversation.recounted(made.tokens)
        return True

    async def _recounted(self, round: Round, made: Candidate) -> Candidate:
        """The candidate with the provider's own count, if the settings want it. It comes before the commit, so that the
        stored round contains it. A cancel ends only the count: the summary is complete."""
        if round.settings.policy != "handoff" or not round.settings.recount_probe:
            return made
        setup = self._setup
        summarizer = setup.ladder.summarizer(round.number)
        request = await apart(setup.conversation.rows, setup.ladder.request, round, made)
        try:
            tokens = await setup.interrupt.guard(summarizer.count(request), insist=True, patient=True)
        except Stopped:
            return made
        finally:
            self._usage = self._usage + summarizer.usage
        return replace(made, tokens=tokens, counted=True) if tokens else made
