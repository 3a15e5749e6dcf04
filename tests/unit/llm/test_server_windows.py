"""Asking a model's server for its window: which server is asked what, how often, and what happens without an answer."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from structlog.testing import capture_logs

from app.errors import ProviderError
from app.llm.base import ModelSettings
from app.llm.catalog import Catalog
from app.llm.http import DOCUMENT_BYTES
from app.llm.registry import ProviderConfig, Providers
from app.llm.windows import ASK_AGAIN_S, BELIEVED_S, MAX_REMEMBERED, ServerWindows

from .servers import LocalServer, Scripted, document, local_server

KEY = "sk-secret-0123456789abcdef"
PLACE, MODEL = "http://acme/v1 one", "acme/one"


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


async def turn() -> None:
    """Lets a question without waiters be asked and answered."""
    await asyncio.sleep(0)


class Question:
    """Answers in order, the last one repeatedly; an exception is raised."""

    def __init__(self, *answers: int | Exception | None) -> None:
        self._answers = list(answers)
        self.asked = 0

    async def __call__(self) -> int | None:
        self.asked += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def listing(*entries: dict[str, Any]) -> Scripted:
    return document(200, {"object": "list", "data": list(entries)})


def providers(server: LocalServer | str, kind: Any = "openai", key: str | None = KEY, **models: int) -> Providers:
    base = server if isinstance(server, str) else server.url
    overrides = {name.replace("__", "/"): ModelSettings(context_window=window) for name, window in models.items()}
    url = base if kind == "anthropic" else base + "/v1"
    configs = [ProviderConfig("acme", kind, url, key, needs_key=False), ProviderConfig("scripted", "scripted")]
    return Providers(configs, Catalog(overrides))


async def window(known: Providers, model: str = MODEL) -> tuple[int, str]:
    """What is known of a model once its server was asked."""
    await known.ask_window(model)
    info = known.info(model)
    await known.aclose()
    return info.context_window, info.window_source


class TestAnswers:
    async def test_the_list_of_models_is_asked_with_the_key(self) -> None:
        async with local_server(listing({"id": "one", "max_model_len": 32_768})) as server:
            assert await window(providers(server)) == (32_768, "server")
        (asked,) = server.asked
        assert (asked.method, asked.path, asked.body) == ("GET", "/v1/models", b"")
        assert asked.headers["authorization"] == f"Bearer {KEY}"
        assert asked.headers["accept"] == "application/json"

    async def test_a_llama_cpp_server_is_asked_for_a_slot_s_window(self) -> None:
        entry = {"id": "m.gguf", "owned_by": "llamacpp", "meta": {"n_ctx": 32_768, "n_ctx_train": 131_072}}
        props = document(200, {"default_generation_settings": {"n_ctx": 8_192}})
        async with local_server(listing(entry), props) as server:
            assert await window(providers(server), "acme/my model") == (8_192, "server")
        assert [asked.path for asked in server.asked] == ["/v1/models", "/props?model=my%20model"]
        assert server.asked[1].headers["authorization"] == f"Bearer {KEY}"

    @pytest.mark.parametrize(("n_ctx", "known"), [(16_384, (16_384, "server")), (None, (128_000, "assumed"))])
    async def test_without_its_properties_the_list_is_used(self, n_ctx: int | None, known: tuple[int, str]) -> None:
        entry = {"id": "one", "meta": {"n_ctx": n_ctx, "n_ctx_train": 131_072}}
        async with local_server(listing(entry), document(404, {"error": "File Not Found"})) as server:
            assert await window(providers(server)) == known

    async def test_lm_studio_is_asked_for_what_is_loaded(self) -> None:
        own = {"id": "one", "compatibility_type": "gguf", "loaded_context_length": 4_096, "max_context_length": 131_072}
        async with local_server(listing({"id": "one", "owned_by": "organization_owner"}), document(200, own)) as server:
            assert await window(providers(server)) == (4_096, "server")
        assert server.asked[1].path == "/api/v0/models/one"

    async def test_anthropic_s_format_has_a_document_for_each_model(self) -> None:
        async with local_server(document(200, {"id": "one", "max_input_tokens": 200_000})) as server:
            assert await window(providers(server, "anthropic")) == (200_000, "server")
        (asked,) = server.asked
        assert asked.path == "/v1/models/one"
        assert (asked.headers["x-api-key"], asked.headers["anthropic-version"]) == (KEY, "2023-06-01")

    async def test_anthropic_s_format_falls_back_to_the_list(self) -> None:
        missing = document(404, {"detail": "Not Found"})
        async with local_server(missing, listing({"id": "one", "max_model_len": 32_768})) as server:
            assert await window(providers(server, "anthropic")) == (32_768, "server")
        assert [asked.path for asked in server.asked] == ["/v1/models/one", "/v1/models"]

    @pytest.mark.parametrize("kind", ["openai", "anthropic"])
    @pytest.mark.parametrize(
        "answer",
        [
            pytest.param(listing({"id": "one", "object": "model"}), id="no window"),
            pytest.param(listing({"id": "other", "max_model_len": 4_096}), id="another model"),
            pytest.param(document(200, [1, None]), id="another shape"),
            pytest.param(document(200, "<html>"), id="no JSON"),
            pytest.param(document(200, "[" * 100_000), id="depth"),
            pytest.param(Scripted(pieces=[b" " * DOCUMENT_BYTES, b"{}"]), id="length"),
            pytest.param(document(401, {"error": {"message": f"bad key {KEY}"}}), id="refused"),
            pytest.param(document(404, "nothing here"), id="not there"),
            pytest.param(document(413, {"error": {"message": "prompt is too long"}}), id="overflow"),
            pytest.param(document(302, "", location="http://127.0.0.1:1/"), id="elsewhere"),
            pytest.param(document(500, ""), id="broken"),
            pytest.param(Scripted(pieces=[b'{"data"'], end="cut"), id="cut"),
        ],
    )
    async def test_anything_else_leaves_the_window_assumed(self, kind: str, answer: Scripted) -> None:
        with capture_logs() as logs:
            async with local_server(answer) as server:
                assert await window(providers(server, kind)) == (128_000, "assumed")
        assert KEY not in str(logs)
        assert {log["log_level"] for log in logs} <= {"info", "debug"}

    @pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://user:hunter2@127.0.0.1:1", "nonsense"])
    async def test_an_unreachable_server_is_not_an_error(self, url: str) -> None:
        with capture_logs() as logs:
            assert await window(providers(url, key=None)) == (128_000, "assumed")
            assert await window(providers(url)) == (128_000, "assumed")
        assert "hunter2" not in str(logs)
        assert [log["event"] for log in logs] == ["window_request_failed"] * 2


class TestWhichServersAreAsked:
    @pytest.mark.parametrize("model", ["acme/one", "acme/gpt-5", "scripted/demo", "nobody/one", "acme/"])
    async def test_not_for_known_models_and_unknown_providers(self, model: str) -> None:
        async with local_server(listing({"id": "one", "max_model_len": 32_768})) as server:
            known = providers(server, acme__one=5_000)
            await known.ask_window(model)
            await known.aclose()
            assert server.asked == []
            assert known.info("acme/one").window_source == "setting"
            assert known.info("acme/gpt-5").window_source == "catalog"

    async def test_not_without_a_required_key(self) -> None:
        async with local_server(listing({"id": "one", "max_model_len": 32_768})) as server:
            config = ProviderConfig("acme", "openai", server.url, None)
            assert await window(Providers([config], Catalog())) == (128_000, "assumed")
            assert server.asked == []

    async def test_one_name_at_two_servers_is_two_models(self) -> None:
        async with (
            local_server(listing({"id": "one", "max_model_len": 4_096})) as first,
            local_server(listing({"id": "one", "max_model_len": 8_192})) as second,
        ):
            urls = {"a": first.url, "b": second.url}
            configs = [ProviderConfig(name, "openai", url, None, needs_key=False) for name, url in urls.items()]
            known = Providers(configs, Catalog())
            await known.ask_window("a/one")
            assert (known.info("a/one").context_window, known.info("b/one").window_source) == (4_096, "assumed")
            assert await window(known, "b/one") == (8_192, "server")


class TestHowOften:
    async def test_once_until_the_window_expires(self) -> None:
        clock, question = Clock(), Question(8_192, 4_096)
        windows = ServerWindows(clock)
        assert windows.get(PLACE) is None
        for _ in range(3):
            await windows.ask(PLACE, MODEL, question)
        assert (windows.get(PLACE), question.asked) == (8_192, 1)
        clock.now += BELIEVED_S
        await windows.ask(PLACE, MODEL, question)
        # A known model is refreshed without waiting.
        assert (windows.get(PLACE), question.asked) == (8_192, 1)
        await turn()
        assert (windows.get(PLACE), question.asked) == (4_096, 2)

    @pytest.mark.parametrize("silence", [None, ProviderError("It is gone."), ValueError("odd")])
    async def test_soon_again_after_no_answer(self, silence: Exception | None) -> None:
        clock, question = Clock(), Question(silence, 8_192)
        windows = ServerWindows(clock)
        await windows.ask(PLACE, MODEL, question)
        clock.now += ASK_AGAIN_S - 1
        await windows.ask(PLACE, MODEL, question)
        await turn()
        assert (windows.get(PLACE), question.asked) == (None, 1)
        clock.now += 1
        await windows.ask(PLACE, MODEL, question)
        await turn()
        assert (windows.get(PLACE), question.asked) == (8_192, 2)

    @pytest.mark.parametrize("silence", [ProviderError("It is gone."), None], ids=["gone", "unloaded"])
    async def test_without_a_new_answer_the_known_window_stays(self, silence: Exception | None) -> None:
        clock, question = Clock(), Question(8_192, silence)
        windows = ServerWindows(clock)
        for _ in range(3):
            await windows.ask(PLACE, MODEL, question)
            await turn()
            clock.now += BELIEVED_S
        assert question.asked == 3
        assert windows.get(PLACE) == 8_192

    async def test_once_for_all_waiters(self) -> None:
        begun, answer = asyncio.Event(), asyncio.Event()
        asked: list[int] = []

        async def slow() -> int:
            asked.append(1)
            begun.set()
            await answer.wait()
            return 8_192

        windows = ServerWindows()
        waiting = [asyncio.create_task(windows.ask(PLACE, MODEL, slow)) for _ in range(3)]
        await begun.wait()
        waiting[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting[0]
        assert windows.get(PLACE) is None
        answer.set()
        await asyncio.gather(*waiting[1:])
        assert (windows.get(PLACE), asked) == (8_192, [1])

    async def test_invented_names_do_not_fill_the_memory(self) -> None:
        windows, question = ServerWindows(), Question(8_192)
        for number in range(MAX_REMEMBERED + 1):
            await windows.ask(f"{PLACE}{number}", MODEL, question)
        assert question.asked == MAX_REMEMBERED + 1
        assert windows.get(f"{PLACE}0") is None
        assert windows.get(f"{PLACE}{MAX_REMEMBERED}") == 8_192


async def test_a_server_that_does_not_answer_does_not_block() -> None:
    async def silent() -> int:
        await asyncio.Event().wait()
        return 8_192

    windows = ServerWindows(timeout_s=0.01)
    with capture_logs() as logs:
        await windows.ask(PLACE, MODEL, silent)
    assert windows.get(PLACE) is None
    assert logs == [
        {"event": "window_request_failed", "log_level": "info", "model": MODEL, "reason": "no answer in time"}
    ]


async def test_closing_cancels_pending_questions() -> None:
    async with local_server(Scripted(silent=True, end="hang")) as server:
        known = providers(server)
        asking = asyncio.create_task(known.ask_window(MODEL))
        await server.arrived.wait()
        await known.aclose()
        await asking
        await server.left.wait()


async def test_the_longest_list_is_read_completely() -> None:
    entries: list[dict[str, Any]] = [{"id": f"model-{number}", "description": "x" * 2_000} for number in range(800)]
    entries.append({"id": "one", "context_length": 65_536})
    assert 1_500_000 < len(orjson.dumps(entries)) < DOCUMENT_BYTES
    async with local_server(listing(*entries)) as server:
        assert await window(providers(server)) == (65_536, "server")
