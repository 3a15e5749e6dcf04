"""What the page and the command line show of a cluster's nodes."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

from playwright.async_api import expect

from tests.behavior.commands import open_command
from tests.behavior.conftest import StartServer, sandbox_image, start_server
from tests.behavior.harness import Client
from tests.cluster.rig import Cluster
from tests.dashboard.browser import launched, watched
from tests.provider import FakeProvider, Gate, Reply, Text
from tests.requirements import need

__all__ = ["sandbox_image", "start_server"]


async def test_the_page_shows_the_nodes_and_where_a_session_runs(
    cluster: Cluster, a: Client, provider: FakeProvider
) -> None:
    need("chromium")
    provider.script(Reply(Gate("one"), Text("One.")))
    cluster.start("w", "worker")
    made = await a.create("begin")
    await provider.reached("one")
    owner = (await a.session(made["id"]))["node"]
    async with launched() as browser, watched(browser, cluster.nodes["a"].url) as (context, _):
        page = await context.new_page()
        await page.goto(f"/#/sessions/{made['id']}")
        runs_on = page.locator(".session-head .node")
        await expect(runs_on).to_contain_text(owner[-6:])
        await expect(runs_on).to_have_attribute("title", f"Node {owner}")
        provider.open("one")
        await expect(runs_on).to_have_count(0)
        await page.goto("/#/usage")
        rows = page.get_by_role("region", name="Nodes").locator("tbody tr")
        await expect(rows).to_have_count(2)
        await expect(rows.filter(has_text=owner[-6:])).to_contain_text("worker")
        await expect(rows.filter(has_text="api")).to_contain_text("ready")


async def listing(url: str, folder: Path, *options: str) -> str:
    """What `palimpsest nodes` prints."""
    arguments = ["nodes", "--server", url, *options]
    process = await open_command(arguments, env={"PATH": os.environ["PATH"]}, cwd=folder)
    out, err = await process.communicate()
    assert process.returncode == 0, err
    return out.decode()


async def test_the_command_lists_the_nodes(cluster: Cluster, tmp_path: Path) -> None:
    node = cluster.start("a")
    async with Client(node.url) as client, asyncio.timeout(60):
        while not (items := (await client.get("/v1/nodes"))["items"]):
            pass
    printed = json.loads(await listing(node.url, tmp_path, "--json", "id,role"))
    assert printed == [{"id": items[0]["id"], "role": "all"}]
    (line,) = (await listing(node.url, tmp_path)).splitlines()
    assert line.split("\t")[0] == items[0]["id"]
    assert {"all", "ready"} < set(line.split("\t"))


async def test_the_command_says_that_a_server_is_on_its_own(start_server: StartServer, tmp_path: Path) -> None:
    assert await listing(start_server().url, tmp_path) == "This server is not a node of a cluster.\n"
