"""Links in the documents resolve, and the README's examples are valid."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.llm.base import ModelSettings
from app.settings import ProviderSettings
from app.tools import default_tools

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def links(text: str) -> Iterator[str]:
    """Links to local files and headings, outside code."""
    for target in LINK.findall(FENCE.sub("", text)):
        if not re.match(r"[a-z]+:", target):
            yield target


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(page: Path, target: str) -> str | None:
    """Why the link is broken, or None."""
    path, _, anchor = target.partition("#")
    file = (page.parent / path).resolve() if path else page
    if not file.exists():
        return f"{page.name}: no file {path}"
    if anchor and anchor not in anchors(file.read_text("utf-8")):
        return f"{page.name}: no heading {target}"
    return None


def env_values(variable: str) -> list[dict[str, dict[str, object]]]:
    """Each JSON value that the README shows for a variable."""
    text = (ROOT / "README.md").read_text("utf-8")
    return [json.loads(value) for value in re.findall(rf"^{variable}='(.+)'$", text, re.MULTILINE)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page: Path) -> None:
    reasons = [broken(page, target) for target in links(page.read_text("utf-8"))]
    assert [reason for reason in reasons if reason] == []


def test_broken_links_are_detected(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One thing\n\n```\n[not a link](nowhere.md)\n```\n")
    assert broken(page, "absent.md") == "page.md: no file absent.md"
    assert broken(page, "page.md#another-thing") == "page.md: no heading page.md#another-thing"
    assert broken(page, "#one-thing") is None
    assert list(links(page.read_text())) == []


def test_every_decision_is_in_the_index_and_has_its_four_parts() -> None:
    folder = ROOT / "docs" / "decisions"
    index = (folder / "README.md").read_text("utf-8")
    records = sorted(folder.glob("[0-9]*.md"))
    assert [int(record.name[:4]) for record in records] == list(range(1, len(records) + 1))
    for record in records:
        text = record.read_text("utf-8")
        assert f"]({record.name})" in index
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences", "Alternatives"]
        assert len(text.splitlines()) < 40


def test_the_readme_has_one_transcript() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert re.search(r"<!-- transcript -->\n```console\n\$ .+?\n```\n<!-- /transcript -->", text, re.DOTALL)


def test_the_readme_lists_the_tools() -> None:
    section = (ROOT / "README.md").read_text("utf-8").partition("\n## Tools\n")[2].partition("\n## ")[0]
    assert sorted(re.findall(r"`(\w+)`", section)) == sorted(tool.name for tool in default_tools())


def test_the_providers_of_the_readme_are_valid() -> None:
    shown = env_values("PALIMPSEST_PROVIDERS")
    providers = {name: ProviderSettings.model_validate(value) for entry in shown for name, value in entry.items()}
    assert set(providers) == {"openrouter", "ollama", "vllm", "llamacpp"}
    assert providers["openrouter"].api_key_env == "OPENROUTER_API_KEY"


def test_the_models_of_the_readme_are_valid_and_used() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    for entry in env_values("PALIMPSEST_MODELS"):
        for name, value in entry.items():
            assert ModelSettings.model_validate(value).context_window
            assert f"\nPALIMPSEST_MODEL={name}\n" in text
