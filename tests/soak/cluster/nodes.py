"""The nodes of a run: processes of the unmodified server, each on a machine of its own by its data directory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from tests.provider import FakeProvider
from tests.soak.clock import Clock
from tests.soak.host import Host

KEY = "soak-key-of-all-nodes"
"""Commands have the host's network, to reach the witness, which takes a key."""
HEADERS = {"Authorization": f"Bearer {KEY}"}
Role = Literal["api", "worker"]


class Node(Host):
    """One node. `more` are its settings beyond those of a server on its own."""

    def __init__(
        self, name: str, role: Role, folder: Path, provider: FakeProvider, more: Mapping[str, str], clock: Clock | None
    ) -> None:
        environment = clock.environment if clock is not None else {}
        data_dir = folder / name
        data_dir.mkdir(mode=0o700)
        super().__init__(data_dir, folder / f"{name}.log", provider, "bubblewrap", "unused", environment)
        self.name = name
        self.role = role
        self.clock = clock
        self._more = more
        self._answer = folder / f"{name}.held"

    async def start(self) -> float:
        self.has_clock = False  # so that each life has its clock
        return await super().start()

    def _environment(self) -> dict[str, str]:
        return {
            **super()._environment(),
            "PALIMPSEST_ROLE": self.role,
            "PALIMPSEST_API_KEYS": KEY,
            "PALIMPSEST_SANDBOX_NETWORK": "on",
            **self._more,
        }


def pick_node(nodes: list[Node], pick: float) -> Node:
    """The victim of a fault."""
    return nodes[min(int(pick * len(nodes)), len(nodes) - 1)]
