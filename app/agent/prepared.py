"""A summary that is prepared in the background, while the agent works on."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from app.agent.conversation import AgentConfig, Conversation
from app.agent.ladder import Ladder, Round, Target
from app.agent.ports import RoundOpening, RungFailed, Sink
from app.agent.summarizer import SummaryFailed
from app.context.selection import Selection
from app.messages import Usage


class Prepared:
    """Starts on construction. `prose` is there once `result` has given a round."""

    def __init__(
        self, sink: Sink, ladder: Ladder, conversation: Conversation, config: AgentConfig, selection: Selection
    ) -> None:
        self.selection = selection
        self.prose = ""
        self._sink = sink
        self._ladder = ladder
        self._config = config
        self._base = conversation.checkpoints
        self._conversation = conversation
        self._round: Round | None = None
        self._summarizer = ladder.summarizer()
        self._task = asyncio.create_task(self._run(conversation.estimate), name="prepared-summary")

    @property
    def usage(self) -> Usage:
        return self._summarizer.usage

    async def _run(self, tokens: int) -> Round | None:
        settings = self._config.settings
        opening = RoundOpening("threshold", settings.policy, tokens, self._config.budget.limit, background=True)
        number = await self._sink.open_round(opening)
        round = self._round = Round(number, self._config, settings, Target(self._config.budget.usable, tokens))
        try:
            self.prose = await self._summarizer.prose(self._ladder.job(round, self.selection))
        except SummaryFailed as failure:
            await self._sink.record(
                RungFailed(number, "summary", failure.code, failure.detail, self._summarizer.usage, None)
            )
            return None
        return round

    async def result(self) -> Round | None:
        """The round, once its prose is there; None where the model gave none."""
        return await asyncio.shield(self._task)

    def fits(self, config: AgentConfig) -> bool:
        """Whether what it was made from is still what the context begins with."""
        return (
            self._base == self._conversation.checkpoints
            and config.model == self._config.model
            and config.settings == self._config.settings
        )

    async def stop(self) -> int | None:
        """Ends the work; the number of the round, if it has one."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.wait({self._task})
        return self._round.number if self._round is not None else None
