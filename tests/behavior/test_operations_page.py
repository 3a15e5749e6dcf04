"""`docs/operations.md` lists exactly the metrics of a server, and the states of `readyz`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr

from app.runtime.values.server import ComponentStatus
from scripts.servers.redis import RedisServer
from tests.behavior.conftest import StartServer
from tests.behavior.harness import Client
from tests.behavior.process import ROOT

PAGE = (ROOT / "docs" / "operations.md").read_text()
OWN = "palimpsest_"


async def served(client: Client) -> set[str]:
    """A server's metrics, under the names used in queries; the creation times of counters are left out."""
    families = list(text_string_to_metric_families((await client.http.get("/metrics")).text))
    names = {f"{family.name}_total" if family.type == "counter" else family.name for family in families}
    return {name for name in names if name.startswith(OWN) and not name.endswith("_created")}


def listed(text: str) -> list[str]:
    """The metrics of a table, sorted."""
    return sorted(re.findall(rf"^\| `({OWN}\w+)` \|", text, re.MULTILINE))


async def test_the_tables_list_exactly_the_metrics(
    start_server: StartServer, redis: RedisServer, tmp_path: Path
) -> None:
    always, _, more = PAGE.partition("\nIn a cluster, each node")[0].partition("\nWith `PALIMPSEST_BROKER` or")
    async with Client(start_server().url) as client:
        alone = await served(client)
    assert listed(always) == sorted(alone)
    shared = tmp_path / "store"
    shared.mkdir()
    node = start_server(data_dir=tmp_path / "node", broker=SecretStr(redis.url), workspace_store=f"file://{shared}")
    async with Client(node.url) as client:
        assert listed(more) == sorted(await served(client) - alone)


async def test_alerts_use_existing_metrics(client: Client) -> None:
    rules = PAGE.partition("```yaml")[2].partition("```")[0]
    asked = {name.removesuffix("_bucket") for name in re.findall(rf"\b{OWN}\w+", rules)}
    assert asked <= await served(client)
    explained = re.findall(r"^\| (\w+) \| ", PAGE.partition("| alert |")[2].partition("##")[0], re.MULTILINE)
    assert explained == [name.removeprefix("Palimpsest") for name in re.findall(r"alert: (\w+)", rules)]


def test_every_state_of_a_part_is_explained() -> None:
    table = PAGE.partition("| component |")[2].partition("\n\n")[0]
    assert set(re.findall(r"\| `(\w+)` \| (?!`)", table)) == {*get_args(ComponentStatus)} - {"ok"}
