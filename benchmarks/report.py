"""Results and their presentation."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Result:
    """One row of the table. `against` is the value for comparison, named by `against_what`; if `goal_is_ratio`, the
    goal is for value / against, else for the value itself, in `unit`. `spread` is the range of the rounds as a share of
    their median."""

    what: str
    value: float
    unit: str
    goal: float
    against: float | None = None
    against_what: str = ""
    goal_is_ratio: bool = False
    paired_ratio: float | None = None
    """The ratio as the median over rounds, if each round measured both; else the ratio of the two values."""
    spread: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        if self.paired_ratio is not None:
            return self.paired_ratio
        return self.value / self.against if self.against else None

    @property
    def judged(self) -> float:
        """The number compared with the goal."""
        if not self.goal_is_ratio:
            return self.value
        assert self.ratio is not None, "a ratio goal needs something to compare with"
        return self.ratio

    @property
    def met(self) -> bool:
        return self.judged <= self.goal


HEADINGS = ("what", "measured", "goal", "compared with", "ratio", "spread", "met")


def cells(result: Result) -> tuple[str, ...]:
    """A result as the texts of a table row."""
    ratio = result.ratio
    return (
        result.what,
        f"{result.value:.3g} {result.unit}" if result.value < 100 else f"{result.value:.0f} {result.unit}",
        f"≤ {result.goal:g}×" if result.goal_is_ratio else f"≤ {result.goal:g} {result.unit}",
        f"{result.against_what} {result.against:.3g} {result.unit}" if result.against is not None else "",
        f"{ratio:.2f}×" if ratio is not None else "",
        f"{result.spread:.0%}" if result.spread is not None else "",
        "yes" if result.met else "NO",
    )


def table(results: Sequence[Result]) -> str:
    """The results as a Markdown table with aligned columns."""
    rows = [HEADINGS, *(cells(result) for result in results)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    lines = [_line(row, widths) for row in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) + " |"


def notes(results: Sequence[Result]) -> str:
    """Notes on individual rows."""
    return "\n".join(f"- {result.what}: {result.note}" for result in results if result.note)


def as_json(results: Sequence[Result], machine: dict[str, Any]) -> dict[str, Any]:
    """The whole report as a JSON document."""
    fields = ("what", "value", "unit", "goal", "goal_is_ratio", "against", "against_what", "ratio", "spread", "note")
    rows = [{name: getattr(result, name) for name in fields} | {"met": result.met} for result in results]
    return {"machine": machine, "results": rows}


def machine() -> dict[str, Any]:
    """The machine's size, needed to interpret the numbers; `load` is the one-minute average."""
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(_memory_bytes() / 2**30, 1),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "load": round(os.getloadavg()[0], 2),
    }


def _memory_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return 0
