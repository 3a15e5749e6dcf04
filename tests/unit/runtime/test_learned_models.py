"""What one node of a cluster learns about a model reaches the others, without what they learn being lost."""

from __future__ import annotations

from app.context.tokens import Calibration
from app.llm.openai import OpenAiProvider
from app.runtime.learned_models import LearnedCalibrations, LearnedQuirks
from tests.unit.runtime.stage import Stage


def key_of(model: str) -> str:
    return f"http://acme {model}"


async def test_a_request_on_one_node_uses_what_another_has_learned(stage: Stage) -> None:
    one, two = LearnedQuirks(stage.database), LearnedQuirks(stage.database)
    provider = OpenAiProvider("acme", "http://acme", None, idle_timeout_s=1)
    provider.remember("http://acme", two)
    try:
        in_use = provider.known("model")
        await one.learned(key_of("model"), in_use.to_json() | {"dropped": ["temperature"], "max_tokens": 5_000})
        assert not in_use.dropped
        await two.load()
        assert provider.look_up("model").dropped == {"temperature"}
        assert provider.known("model") is in_use, "requests that are being made have it too"
        assert (in_use.dropped, in_use.max_tokens) == ({"temperature"}, 5_000)
        await two.learned(key_of("model"), in_use.to_json() | {"dropped": ["temperature", "top_p"]})
        await two.load()
        await one.load()
        assert one.recall(key_of("model")) == two.recall(key_of("model"))
        assert provider.known("model").dropped == {"temperature", "top_p"}
    finally:
        await provider.aclose()


async def test_token_counts_of_other_nodes_are_used(stage: Stage) -> None:
    one, two = (LearnedCalibrations(stage.database, key_of) for _ in range(2))
    one.update({"one": Calibration(1.5)})
    two.update({"two": Calibration(0.75)})

    async def exchange(*nodes: LearnedCalibrations) -> None:
        for node in nodes:
            await node.store()
            node.adopt(await stage.database.read(node.rows))

    await exchange(one, two, one)
    assert [node.get(model) for node in (one, two) for model in ("one", "two")] == [
        Calibration(1.5),
        Calibration(0.75),
    ] * 2
    two.update({"one": Calibration(1.25)})
    await exchange(one, two, one)
    assert one.get("one") == two.get("one") == Calibration(1.25)
