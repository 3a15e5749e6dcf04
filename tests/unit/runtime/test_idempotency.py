"""Requests with an `Idempotency-Key` in a cluster: each is answered by one node at a time, with the same id."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import text, update

from app.db.models import idempotent_requests
from app.db.repositories import idempotency
from app.errors import ConflictError, StorageError
from app.messages import now
from app.runtime.services.idempotency import ABANDONED_AFTER, Answer, IdempotencyService
from app.sandbox.host.local import LocalFactory
from tests.unit.runtime.stage import Stage, make_sandboxes, make_setup


@pytest.fixture
def nodes(stage: Stage, tmp_path: Path) -> list[IdempotencyService]:
    setup = make_setup(stage, make_sandboxes(LocalFactory(tmp_path)))
    return [IdempotencyService(replace(setup, node=name)) for name in "ab"]


async def refused(node: IdempotencyService) -> None:
    with pytest.raises(ConflictError) as error:
        await node.begin("key")
    assert error.value.code == "idempotency_key_in_use"


async def test_a_request_is_answered_by_the_node_that_holds_it(stage: Stage, nodes: list[IdempotencyService]) -> None:
    slow, fast = nodes
    made_id = await slow.begin("key")
    await refused(slow)
    await refused(fast)

    long_ago = update(idempotent_requests).values(created_at=now() - ABANDONED_AFTER - timedelta(seconds=1))
    await stage.write(lambda c: c.execute(long_ago))
    assert await fast.begin("key") == made_id
    assert not await stage.write(lambda c: idempotency.take_over(c, "key", "slow", "third", now()))
    # What another node has taken over is no longer this one's to answer or to let go.
    await slow.answer("key", Answer("", None, 201, {}, b"slow"))
    await refused(slow)
    await slow.release("key")
    await refused(slow)

    # Without an answer it may have made something, which has this id.
    await fast.release("key")
    assert await slow.begin("key") == made_id
    await refused(fast)
    answer = Answer("", None, 201, {}, b"slow")
    await slow.answer("key", answer)
    assert [await node.begin("key") for node in nodes] == [answer, answer]


@pytest.mark.sqlite
async def test_a_request_that_could_not_be_let_go_is_taken_up_again(
    stage: Stage, nodes: list[IdempotencyService]
) -> None:
    node, other = nodes
    made_id = await node.begin("key")
    fails = "CREATE TRIGGER fails BEFORE UPDATE ON idempotent_requests BEGIN SELECT abs(-9223372036854775808); END"
    await stage.write(lambda c: c.execute(text(fails)))
    with pytest.raises(StorageError):
        await node.release("key")
    await stage.write(lambda c: c.execute(text("DROP TRIGGER fails")))
    await refused(other)
    assert await node.begin("key") == made_id
