"""Polls a server's `/healthz` from a separate process and reports the longest response time.

It imports nothing from the service and runs outside the test's process, so that it measures only the server.
"""

import http.client
import json
import select
import sys
import time

PAUSE_S = 0.005


def main(host: str, port: int) -> None:
    """Polls until its input ends. Prints a line after the first response, and at the end the number of responses, the
    longest in milliseconds, and the 99th percentile."""
    connection = http.client.HTTPConnection(host, port, timeout=60)
    count = 0
    took: list[float] = []
    while not select.select([sys.stdin], [], [], PAUSE_S)[0] or count == 0:
        asked = time.perf_counter()
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        answer.read()
        took.append((time.perf_counter() - asked) * 1000)
        count += answer.status == 200
        if len(took) == 1:
            print("begun", flush=True)
    took.sort()
    print(json.dumps([count, took[-1], took[len(took) * 99 // 100]]))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
