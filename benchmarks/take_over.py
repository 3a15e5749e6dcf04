"""`python -m benchmarks.take_over`: how soon another worker of a cluster continues a session whose worker was killed or
frozen in the middle of a step.

Starts Postgres, Temporal, an API node and two workers as processes on this machine. Each try kills (`SIGKILL`) or
freezes (`SIGSTOP`) the worker that owns a session, and measures the time until the next step has started, by the time
in that step's event. Every try also checks that the log has no hole and that no command ran twice.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.crowd_take_over import GOAL_S, WORST_S, Found, read
from benchmarks.crowd_take_over import measure as measure_crowd
from scripts.servers.postgres import temporary_database
from scripts.servers.temporal import stored_temporal
from tests.behavior.checks import assert_sound, at
from tests.behavior.harness import Client, Event, command, of_type
from tests.cluster.rig import Cluster
from tests.provider import FakeProvider, Gate, Reply, Text
from tests.provider.server import running_provider

HOWS = {"kill": signal.SIGKILL, "freeze": signal.SIGSTOP}


async def one_try(cluster: Cluster, client: Client, provider: FakeProvider, how: str, number: int) -> float:
    """Seconds until the next step started."""
    provider.reset()
    gate = f"{how}-{number}"
    provider.script(
        Reply(command("echo ran >> runs")),
        Reply(Text("half of it", 3), Gate(gate)),
        Reply(command("echo again >> runs")),
        Reply(Text("Done.")),
    )
    session_id = str((await client.create("begin"))["id"])
    await client.wait_for(session_id, lambda event: _is_step(event, 2))
    await provider.reached(gate)
    name = cluster.worker_of(session_id)
    began = time.time()
    if how == "freeze":
        cluster.nodes[name].freeze()
    else:
        cluster.nodes.pop(name).end(signal.SIGKILL)
        cluster.start(f"worker-{how}-{number}", "worker")
    events = await client.until_idle(session_id)
    if how == "freeze":
        cluster.nodes[name].thaw()
        provider.open(gate)
    await _check(client, session_id)
    started = next(event for event in of_type(events, "step.started") if event.data["step"] == 3)
    return at(started).timestamp() - began


def _is_step(event: Event, number: int) -> bool:
    return event.type == "step.started" and event.data["step"] == number


async def _check(client: Client, session_id: str) -> None:
    await assert_sound(client, session_id)
    runs = (await client.http.get(f"/v1/sessions/{session_id}/files/runs")).text
    assert runs == "ran\nagain\n", f"commands ran: {runs}"


async def measure(tries: int, hows: Sequence[str]) -> dict[str, list[float]]:
    """The seconds of each try."""
    with ExitStack() as stack:
        folder, url = Path(stack.enter_context(TemporaryDirectory())), stack.enter_context(temporary_database())
        provider = stack.enter_context(running_provider())
        cluster = stack.enter_context(Cluster(folder, provider, url, stored_temporal().address, {}))
        api = cluster.start("api", "api")
        for name in ("worker-1", "worker-2"):
            cluster.start(name, "worker")
        async with Client(api.url) as client:
            return {
                how: [await one_try(cluster, client, provider, how, number) for number in range(tries)] for how in hows
            }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.take_over", description=__doc__.splitlines()[0])
    parser.add_argument("--tries", type=int, default=10, help="of each kind (default: 10)")
    parser.add_argument("--fault", action="append", choices=HOWS, help="the only kind (default: both); repeatable")
    parser.add_argument("--sessions", type=int, default=1, help="of the worker, with more than one in all phases (1)")
    parser.add_argument("--into", type=Path, help="append each try of many sessions to this file, and sum all up")
    options = parser.parse_args()
    hows = options.fault or list(HOWS)
    if options.sessions > 1:
        return _measure_crowds(hows, options.tries, options.sessions, options.into)
    found = asyncio.run(measure(options.tries, hows))
    for how, seconds in found.items():
        told = f"median {statistics.median(seconds):.2f} s, worst {max(seconds):.2f} s, {len(seconds)} tries"
        print(f"{how:7} {told}  {' '.join(f'{each:.2f}' for each in seconds)}")
    return int(any(statistics.median(seconds) > GOAL_S for seconds in found.values()))


def _measure_crowds(hows: Sequence[str], tries: int, sessions: int, into: Path | None) -> int:
    """Prints what was measured of workers with many sessions, with what `into` has of earlier runs; returns whether
    anything was wrong or late."""
    found = {how: Found() if into is None else read(into, how, sessions) for how in hows}
    for how in hows:

        def done(each: Found, how: str = how) -> None:
            found[how].add(each.values())
            if into is not None:
                with into.open("a") as file:
                    file.write(json.dumps({"fault": how, "sessions": sessions, "found": each.values()}) + "\n")

        if tries:
            asyncio.run(measure_crowd(how, tries, sessions, done))
    for how, all_found in found.items():
        print(all_found.told(how, sessions))
    wrong = sum(len(each.wrong) for each in found.values())
    late = [how for how, each in found.items() if each.is_late]
    print(f"missed {GOAL_S:g} s or {WORST_S:g} s: {', '.join(late) or 'none'}")
    print(f"{wrong} violations")
    return int(bool(wrong or late))


if __name__ == "__main__":
    sys.exit(main())
