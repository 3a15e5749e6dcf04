"""Reads the server's metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import httpx
from prometheus_client.parser import text_string_to_metric_families

Gauges: TypeAlias = dict[str, float]


async def scrape(url: str, headers: Mapping[str, str] | None = None) -> Gauges:
    """The values without a label, by name."""
    async with httpx.AsyncClient(base_url=url, headers=headers, trust_env=False, verify=False, timeout=60) as http:
        text = (await http.get("/metrics")).raise_for_status().text
    families = text_string_to_metric_families(text)
    return {sample.name: sample.value for family in families for sample in family.samples if not sample.labels}
