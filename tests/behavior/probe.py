"""Polls a server's `/healthz` from a separate process and reports the longest response time.

It imports nothing from the service and runs outside the test's process, so that it measures only the server.
"""

import http.client
import json
import os
import select
import sys
import time

PAUSE_S = 0.05
"""Answers cost the server CPU time, so that polling without a pause would slow down what is watched. A block counts
only from the next request on, so that up to this much of it is missed."""


def cpu_s(pid: int) -> float:
    """CPU time of a process, in seconds; steps of ten milliseconds."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main(host: str, port: int, pid: int | None) -> None:
    """Polls until its input ends. Prints a line after the first response, and at the end the number of responses, the
    longest in milliseconds, the 99th percentile, and the longest wait. With the server's `pid`, a response takes at
    most the CPU time that the server used meanwhile: for the rest it waited for others of a busy machine."""
    connection = http.client.HTTPConnection(host, port, timeout=60)
    count = 0
    took: list[float] = []
    longest = 0.0
    while not select.select([sys.stdin], [], [], PAUSE_S)[0] or count == 0:
        asked, used = time.perf_counter(), cpu_s(pid) if pid else 0
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        answer.read()
        waited = time.perf_counter() - asked
        longest = max(longest, waited * 1000)
        took.append((min(waited, cpu_s(pid) - used) if pid else waited) * 1000)
        count += answer.status == 200
        if len(took) == 1:
            print("begun", flush=True)
    took.sort()
    print(json.dumps([count, took[-1], took[len(took) * 99 // 100], longest]))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else None)
