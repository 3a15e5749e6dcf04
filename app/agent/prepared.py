"""A summary that is prepared in the background, while the agent works on."""

from __future__ import annotations

import asyncio

from app.agent.conversation import AgentConfig, Conversation
from app.agent.ladder import Ladder, Round, Target
from app.agent.ports import RoundOpening, RungFailed, Sink
from app.agent.summarizer import SummaryFailed
from app.context.selection import Selection
from app.llm.base import ModelRequest
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
        self._failed = False
        self._summarizer = ladder.summarizer()
        self._taken = Usage()
        tokens, settings = conversation.estimate, config.settings
        opening = RoundOpening("threshold", settings.policy, tokens, config.budget.limit, background=True)
        self._number = asyncio.ensure_future(sink.open_round(opening))
        # The request of now: when the round has its number, a step may have calls that wait for their results.
        work = self._run(tokens, conversation.sound_request(config))
        self._task = asyncio.create_task(work, name="prepared-summary")

    @property
    def usage(self) -> Usage:
        """What it has cost so far."""
        return self._summarizer.usage

    def take_usage(self) -> Usage:
        """What it has cost since the last call."""
        usage, taken = self._summarizer.usage, self._taken
        self._taken = usage
        return _difference(usage, taken)

    async def _run(self, tokens: int, request: ModelRequest) -> Round | None:
        number = await asyncio.shield(self._number)
        round = Round(number, self._config, self._config.settings, Target(self._config.budget.usable, tokens))
        try:
            self.prose = await self._summarizer.prose(self._ladder.job(round, self.selection, request))
        except SummaryFailed as failure:
            self._failed = True
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
        """Ends the work; the number of its round where that is still to be closed, None where it has failed. Raises
        what kept the round from being opened."""
        self._task.cancel()
        await asyncio.wait({self._task})
        if not self._task.cancelled() and (error := self._task.exception()) is not None:
            raise error
        return None if self._failed else await self._number


def _difference(usage: Usage, before: Usage) -> Usage:
    """The usage between two readings; its cost is unknown where that of the later one is."""
    names = [name for name in Usage.model_fields if name != "cost_usd"]
    counts = {name: getattr(usage, name) - getattr(before, name) for name in names}
    cost = None if usage.cost_usd is None else usage.cost_usd - (before.cost_usd or 0.0)
    return Usage(**counts, cost_usd=cost)
