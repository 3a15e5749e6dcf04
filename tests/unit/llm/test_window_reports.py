"""The windows in servers' reports: which numbers are trusted, and which are not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.llm.base import LEAST_WINDOW, MOST_WINDOW
from app.llm.windows import entry_of, is_llama_cpp, is_lm_studio, listed_window, plausible, props_window

LLAMA = {"id": "/models/qwen.gguf", "aliases": ["qwen"], "owned_by": "llamacpp", "meta": {"n_ctx_train": 40_960}}

NAMES = st.sampled_from(
    ["data", "id", "aliases", "meta", "n_ctx", "owned_by", "context_length", "default_generation_settings"]
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8) | NAMES, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("entry", "window"),
    [
        pytest.param({"max_model_len": 32_768}, 32_768, id="vLLM"),
        pytest.param({"context_length": 131_072, "top_provider": {"context_length": 8_192}}, 131_072, id="OpenRouter"),
        pytest.param({"context_window": 131_072, "max_completion_tokens": 8_192}, 131_072, id="Groq"),
        pytest.param({"max_context_length": 262_144, "capabilities": {}}, 262_144, id="Mistral"),
        pytest.param({"max_input_tokens": 200_000, "max_tokens": 64_000}, 200_000, id="Anthropic"),
        pytest.param({"meta": {"n_ctx": 8_192, "n_ctx_train": 131_072}}, 8_192, id="llama.cpp"),
        pytest.param({"meta": {"n_ctx_train": 131_072}}, None, id="llama.cpp, what it was trained for"),
        pytest.param(
            {"compatibility_type": "gguf", "loaded_context_length": 4_096, "max_context_length": 131_072},
            4_096,
            id="LM Studio",
        ),
        pytest.param(
            {"compatibility_type": "gguf", "state": "not-loaded", "max_context_length": 131_072},
            None,
            id="LM Studio, not loaded",
        ),
        pytest.param({"id": "qwen3", "owned_by": "library"}, None, id="Ollama"),
        pytest.param({"context_length": None, "max_model_len": 0, "context_window": 16_384}, 16_384, id="gaps"),
        pytest.param({"meta": None, "context_length": "131072"}, None, id="text"),
    ],
)
def test_each_server_has_its_own_field(entry: dict[str, Any], window: int | None) -> None:
    assert listed_window(entry) == window


@pytest.mark.parametrize(
    ("value", "believed"),
    [
        (LEAST_WINDOW, True),
        (LEAST_WINDOW - 1, False),
        (MOST_WINDOW, True),
        (MOST_WINDOW + 1, False),
        (0, False),
        (-8_192, False),
        (8_192.0, False),
        (True, False),
        ("8192", False),
        (None, False),
        ([8_192], False),
    ],
)
def test_only_a_plausible_number_is_a_window(value: Any, believed: bool) -> None:
    assert plausible(value) == (value if believed else None)


class TestEntries:
    @pytest.mark.parametrize("wrap", [lambda entries: {"data": entries}, lambda entries: entries])
    def test_a_model_is_found_by_its_id(self, wrap: Any) -> None:
        entries = [{"id": "other"}, "noise", {"id": "acme/one", "max_model_len": 4_096}, {"aliases": ["acme/one"]}]
        found = entry_of(wrap(entries), "acme/one")
        assert found is not None
        assert found["max_model_len"] == 4_096

    def test_a_model_is_found_by_an_alias(self) -> None:
        assert entry_of({"data": [{"id": "x", "aliases": None}, LLAMA, {"id": "y"}]}, "qwen") == LLAMA

    def test_a_llama_cpp_server_with_one_model_answers_to_every_name(self) -> None:
        assert entry_of({"data": [LLAMA]}, "whatever") == LLAMA
        assert entry_of({"data": [LLAMA, LLAMA | {"id": "b"}]}, "whatever") is None
        assert entry_of({"data": [{"id": "a", "max_model_len": 4_096}]}, "whatever") is None

    @pytest.mark.parametrize("listing", [None, [], {}, "models", {"data": "none"}, {"data": [1, "x", None]}])
    def test_a_list_without_the_model_is_not_an_error(self, listing: Any) -> None:
        assert entry_of(listing, "one") is None


def test_the_kind_of_server_is_recognized() -> None:
    assert is_llama_cpp(LLAMA)
    assert is_llama_cpp({"meta": {"n_ctx_train": 1}})
    assert not is_llama_cpp({"owned_by": "vllm", "meta": None})
    assert is_lm_studio({"owned_by": "organization_owner"})
    assert not is_lm_studio({"owned_by": "openai"})


@pytest.mark.parametrize(
    ("props", "window"),
    [
        ({"default_generation_settings": {"n_ctx": 8_192}, "n_ctx": 1}, 8_192),
        ({"default_generation_settings": {"n_ctx": 0}}, None),
        ({"default_generation_settings": None}, None),
        ({}, None),
        (None, None),
        ([], None),
    ],
)
def test_the_properties_of_a_llama_cpp_server(props: Any, window: int | None) -> None:
    assert props_window(props) == window


@given(document=JSON)
def test_any_document_is_handled(document: Any) -> None:
    entry = entry_of(document, "id")
    if isinstance(entry, dict):
        window = listed_window(entry)
        assert window is None or LEAST_WINDOW <= window <= MOST_WINDOW
        assert is_llama_cpp(entry) in (True, False)
        assert is_lm_studio(entry) in (True, False)
    props_window(document)
