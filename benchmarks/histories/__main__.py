"""Plays the stories against a real server and writes the results into the package."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from app.logs import configure_logging
from benchmarks.histories.recorder import FOLDER, record_all


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="Only these stories.")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="Where the histories go.")
    given = parser.parse_args()
    configure_logging("error", "console")
    asyncio.run(record_all(given.names, given.folder))


main()
