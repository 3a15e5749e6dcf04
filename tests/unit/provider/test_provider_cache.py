"""Counting and the prompt cache."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.provider import FakeProvider
from tests.provider.anthropic.reading import blocks as anthropic_blocks
from tests.provider.counting import CACHE_LOOKBACK, IMAGE_TOKENS, PromptCache, count_text, text_block
from tests.provider.openai.reading import blocks as openai_blocks
from tests.unit.provider.wire import (
    JSON,
    anthropic_body,
    assistant,
    call,
    calls,
    function,
    openai_body,
    outcome,
    post,
    result,
    text,
    tool,
    use,
    user,
)

MARK: JSON = {"cache_control": {"type": "ephemeral"}}
TEXTS = st.lists(st.text(max_size=12), max_size=8)


@given(st.text(max_size=200))
def test_text_costs_a_quarter_of_its_bytes_rounded_up(value: str) -> None:
    size = len(value.encode())
    assert count_text(value) * 4 - 3 <= size <= count_text(value) * 4


@given(TEXTS, TEXTS)
def test_an_implicit_hit_is_the_longest_common_prefix(first: list[str], second: list[str]) -> None:
    cache = PromptCache()
    rows = [[text_block("user", item) for item in items] for items in (first, second)]
    assert cache.take("m", rows[0], explicit=False).read == 0
    hit = cache.take("m", rows[1], explicit=False)
    common = 0
    while common < min(len(first), len(second)) and first[common] == second[common]:
        common += 1
    assert hit.read == hit.shared == sum(block.tokens for block in rows[1][:common])
    assert hit.written == 0


@given(TEXTS)
def test_another_model_shares_nothing(items: list[str]) -> None:
    cache = PromptCache()
    row = [text_block("user", item) for item in items]
    cache.take("m", row, explicit=False)
    assert cache.take("n", row, explicit=False).shared == 0


def test_an_explicit_cache_reads_from_breakpoint_to_breakpoint() -> None:
    cache = PromptCache()
    a, b, c = (text_block("user", letter * 40) for letter in "abc")
    marked = [text_block("user", letter * 40, breakpoint=True) for letter in "abc"]
    first = cache.take("m", [a, marked[1]], explicit=True)
    assert (first.read, first.written) == (0, 20)
    second = cache.take("m", [a, b, marked[2]], explicit=True)
    assert (second.shared, second.read, second.written) == (20, 20, 10)
    unmarked = cache.take("m", [a, b, c], explicit=True)
    assert (unmarked.shared, unmarked.read, unmarked.written) == (30, 0, 0)
    earlier = cache.take("m", [marked[0], b], explicit=True)
    assert (earlier.read, earlier.written) == (0, 10)


def test_an_explicit_cache_looks_back_a_limited_way() -> None:
    for distance, found in ((CACHE_LOOKBACK - 1, 10), (CACHE_LOOKBACK, 0)):
        cache = PromptCache()
        start = text_block("user", "x" * 40, breakpoint=True)
        cache.take("m", [start], explicit=True)
        more = [text_block("user", str(n)) for n in range(distance - 1)]
        end = text_block("user", "end", breakpoint=True)
        plain = text_block("user", "x" * 40)
        assert cache.take("m", [plain, *more, end], explicit=True).read == found


def test_openai_reports_the_prefix_as_cached(provider: FakeProvider) -> None:
    history: list[JSON] = [user("x" * 40), calls(call("a", '{"p": 1}')), result("a", "y" * 80)]
    tools = [function()]
    for messages in (history[:1], history, [*history, user("z" * 8)]):
        post(provider, "openai", openai_body(*messages, tools=tools))
    first, second, third = provider.requests
    assert first.cached_tokens == 0
    assert second.cached_tokens == first.tokens
    assert (third.cached_tokens, third.tokens) == (second.tokens, second.tokens + 2)


def test_openai_sees_a_change_at_the_front(provider: FakeProvider) -> None:
    for system in ("one", "two"):
        post(provider, "openai", openai_body({"role": "system", "content": system}, user("x" * 40)))
    assert provider.requests[1].cached_tokens == 0


def test_anthropic_reports_reads_and_writes(provider: FakeProvider) -> None:
    system = [text("s" * 40, **MARK)]
    turn = [user([text("q" * 20, **MARK)])]
    usage = post(provider, "anthropic", anthropic_body(*turn, system=system)).json()["usage"]
    assert (usage["input_tokens"], usage["cache_creation_input_tokens"], usage["cache_read_input_tokens"]) == (0, 15, 0)
    longer = [user([text("q" * 20)]), assistant([use("a")]), user([outcome("a", "r" * 400), text("more", **MARK)])]
    usage = post(provider, "anthropic", anthropic_body(*longer, system=system)).json()["usage"]
    assert usage["cache_read_input_tokens"] == 15
    assert usage["input_tokens"] == 0
    assert usage["cache_creation_input_tokens"] == provider.requests[1].tokens - 15
    assert provider.requests[1].shared_tokens == 15


def test_where_a_breakpoint_stands_does_not_change_the_prompt() -> None:
    plain = anthropic_blocks(anthropic_body(tools=[tool()], system=[text("s")]))
    moved = anthropic_blocks(anthropic_body(tools=[tool(**MARK)], system=[text("s", **MARK)]))
    assert [(b.place, b.content) for b in plain] == [(b.place, b.content) for b in moved]
    assert [b.breakpoint for b in moved] == [True, True, False]


def test_text_as_a_string_or_as_a_part_is_the_same_prompt() -> None:
    assert openai_blocks(openai_body(user("x"))) == openai_blocks(openai_body(user([text("x")])))
    assert anthropic_blocks(anthropic_body(user("x"))) == anthropic_blocks(anthropic_body(user([text("x")])))


def test_an_image_costs_the_same_whatever_its_bytes() -> None:
    data = "A" * 40_000
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    url = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
    assert [b.tokens for b in anthropic_blocks(anthropic_body(user([picture])))] == [IMAGE_TOKENS]
    assert [b.tokens for b in openai_blocks(openai_body(user([url])))] == [IMAGE_TOKENS]


def test_thinking_and_unknown_blocks_are_counted() -> None:
    thinking = {"type": "thinking", "thinking": "x" * 40, "signature": "s" * 400}
    row = anthropic_blocks(anthropic_body(user("a"), assistant([thinking, {"type": "redacted_thinking", "data": "d"}])))
    assert row[1].tokens == 10
    assert row[2].tokens > 0
