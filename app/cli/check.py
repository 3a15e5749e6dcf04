"""One finding of `palimpsest doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Check:
    """One finding. `missing` means that the server cannot work without it; `fix` says how to fix it."""

    name: str
    status: Literal["ok", "warning", "missing"]
    detail: str
    fix: str | None = None
