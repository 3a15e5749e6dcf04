"""Normalizes the names of one model at several providers: `openrouter/anthropic/claude-opus-5.5:beta`,
`us.anthropic.claude-opus-5-5-v1:0` and `claude-opus-5-5@20260203` are all `claude-opus-5-5`."""

from __future__ import annotations

import re

_VARIANT = re.compile(r":(?:beta|free|thinking|nitro|floor|extended|online|exacto|latest)$")
"""Suffixes of OpenRouter and others for how a model is served, and Ollama's for the newest tag."""

_OWNERS = re.compile(r"^(?:databricks-|(?:[a-z]+(?:-[a-z]+)*\.)+)")
"""Regions and vendors in front of a name, as in Amazon Bedrock: `us.anthropic.`; and Databricks' prefix."""

_REVISION = re.compile(r"-v\d+:\d+(?::\w+)?$|(?<=\d)-v1$")
"""Amazon Bedrock's revision of a model, with the size of its window if it has several: `-v1:0:200k`."""

_DATE = re.compile(r"-(?:20\d{6}|20\d\d-\d\d-\d\d)$")

_LATEST = re.compile(r"-latest$")


def stripped_name(model: str) -> str:
    """A model's name in lower case without paths, regions, vendors, variants, revisions and dates. A size tag, as in
    Ollama, is part of the name: `gpt-oss:20b` becomes `gpt-oss-20b`."""
    name = model.lower().rpartition("/")[2].partition("@")[0]
    for part in (_VARIANT, _OWNERS, _REVISION, _DATE, _LATEST):
        name = part.sub("", name)
    return name.replace(":", "-")


def plain_name(model: str) -> str:
    """The stripped name with `4.5` and `4-5` made equal, for comparisons."""
    return stripped_name(model).replace(".", "-")
