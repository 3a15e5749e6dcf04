"""Asks a server for `/healthz` again and again, in a process of its own, and says what the longest answer took.

It imports nothing of the service and is no part of the test's process, so that what it measures is the server.
"""

import http.client
import json
import select
import sys
import time

PAUSE_S = 0.005


def main(host: str, port: int) -> None:
    """Asks until the input ends. Prints a line after the first answer, and at the end the count of answers, the longest
    of them in milliseconds, and the one that a hundredth took longer than."""
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
