import asyncio, time
from pathlib import Path
import pytest
from tests.behaviour.test_slow_reader import *
from tests.behaviour.test_slow_reader import process
from tests.provider.fixtures import provider

async def test_dbg(provider, process):
    url, pid = process
    async with Client(url) as client:
        async with waiting_session(client, provider, "go") as sid:
            c = dead_reader(url, sid)
        await finished(client, sid)
        cl, sv = c.getsockname()[1], c.getpeername()[1]
        for i in range(9):
            for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
                r=line.split()
                if r[1].endswith(f":{sv:04X}") and r[2].endswith(f":{cl:04X}") : print("srv", i, r[3], r[4], flush=True)
                if r[2].endswith(f":{sv:04X}") and r[1].endswith(f":{cl:04X}") : print("cli", i, r[3], r[4], flush=True)
            await asyncio.sleep(5)
