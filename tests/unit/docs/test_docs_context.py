"""The page on context management matches the code: settings, events, examples."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.context.policies import POLICIES, PRESETS, CompactionSettings, preset
from app.events import DURABLE_EVENTS
from app.runtime.values.history import CompactionPreview, ContextView
from app.sessions import CompactionFields
from docs.generate import DOCS
from docs.generate.markdown import table

PAGE = (DOCS / "context.md").read_text("utf-8")
EVENTS = {event.type: event for event in DURABLE_EVENTS}


def between(name: str, text: str = PAGE) -> str:
    """The text between the two comments with this name."""
    found = re.search(rf"<!-- {name} -->\n(.*?)<!-- /{name} -->", text, re.DOTALL)
    assert found is not None, f"no part {name}"
    return found[1]


def shown(value: Any) -> str:
    """A default as the page writes it."""
    if isinstance(value, tuple):
        return ", ".join(f"`{item}`" for item in value)
    return f"`{json.dumps(value)}`".replace('"', "")


def default(name: str) -> str:
    """A setting's default, and those of the policies whose preset differs."""
    usual = shown(CompactionSettings.model_fields[name].default)
    others = [f"`{policy}` {shown(PRESETS[policy][name])}" for policy in POLICIES if name in PRESETS[policy]]
    return "; ".join([usual, *others])


def settings_table() -> str:
    fields = [(name, field) for name, field in CompactionSettings.model_fields.items() if name != "given"]
    rows = ([f"`{name}`", default(name), field.description or ""] for name, field in fields)
    return table(("Setting", "Default", "Meaning"), rows)


def examples(text: str = PAGE) -> Iterator[tuple[str, dict[str, Any]]]:
    """The events that the page shows, with the shown part of their data."""
    for kind, data in re.findall(r"^event: (\S+)\ndata: (\{.*\})$", text, re.MULTILINE):
        yield kind, json.loads(data.replace(',"…"', "").replace('"…",', ""))


def test_the_settings_table_matches_the_code() -> None:
    assert between("settings") == settings_table(), f"the table should be:\n{settings_table()}"


def test_presets_have_only_known_settings() -> None:
    assert {name for changes in PRESETS.values() for name in changes} <= set(CompactionSettings.model_fields)
    assert default("summary_max_tokens") == "`2000`; `threshold` `1000`; `handoff` `null`"
    assert preset("threshold").summary_max_tokens == 1000


def test_all_events_of_the_context_are_explained() -> None:
    explained = set(re.findall(r"^\| `([a-z.]+)` \|", between("events"), re.MULTILINE))
    assert explained == {kind for kind in EVENTS if kind.startswith(("compaction.", "prune."))}


def test_the_shown_events_have_valid_fields() -> None:
    found = list(examples())
    assert {kind for kind, _ in found} >= {"prune.completed", "compaction.started", "compaction.completed"}
    for kind, data in found:
        assert set(data) <= set(EVENTS[kind].model_fields), kind


def test_an_unknown_event_would_be_detected() -> None:
    page = 'event: compaction.begun\ndata: {"round":1,"…"}\n'
    assert [(kind, kind in EVENTS) for kind, _ in examples(page)] == [("compaction.begun", False)]


@pytest.mark.parametrize(("part", "model"), [("dry-run", CompactionPreview), ("round", CompactionFields)])
def test_shown_responses_are_complete(part: str, model: Any) -> None:
    answer = re.search(r"^\{$.*?^\}$", between(part), re.MULTILINE | re.DOTALL)
    assert answer is not None
    assert set(json.loads(answer[0])) == set(model.model_fields)


def test_the_shown_context_has_valid_fields() -> None:
    named = set(re.findall(r"(\w+)=", "\n".join(re.findall(r"^step=.*$", PAGE, re.MULTILINE))))
    assert {"step", "generation", "tokens", "limit", "usable"} <= named <= set(ContextView.model_fields)


def test_the_page_is_linked_from_the_others() -> None:
    root = Path(DOCS).parent
    for page, target in ((DOCS / "README.md", "(context.md"), (root / "README.md", "(docs/context.md")):
        assert target in page.read_text("utf-8"), page.name
