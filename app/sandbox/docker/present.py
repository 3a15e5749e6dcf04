"""What an Engine has of each session, to be removed by whichever server looks for leftovers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from app.sandbox.base import Present
from app.sandbox.docker.container import SESSION_LABEL
from app.sandbox.docker.engine import Engine, translated_refusals


def grouped(
    engine: Engine, containers: Iterable[dict[str, Any]], volumes: Iterable[dict[str, Any]]
) -> Sequence[Present]:
    """Containers and volumes, as the Engine lists them, by session."""
    by_session: dict[str, _Found] = {}
    for container in containers:
        found = by_session.setdefault(container["Labels"].get(SESSION_LABEL, ""), _Found(engine))
        found.containers.append(container["Id"])
        found.touched = max(found.touched, float(container["Created"]))
        found.runs = found.runs or container["State"] == "running"
    for volume in volumes:
        found = by_session.setdefault(volume["Labels"].get(SESSION_LABEL, ""), _Found(engine))
        found.volumes.append(volume["Name"])
        found.touched = max(found.touched, datetime.fromisoformat(volume["CreatedAt"]).timestamp())
    return [Present(id, found.touched, found.runs, found.stop, found.remove) for id, found in by_session.items()]


@dataclass
class _Found:
    """What the Engine has of one session. Its containers are removed by their ids: if it has been used since, it has
    others, whose volume the Engine keeps."""

    engine: Engine
    containers: list[str] = field(default_factory=list)
    volumes: list[str] = field(default_factory=list)
    touched: float = 0.0
    runs: bool = False

    async def stop(self) -> None:
        with translated_refusals():
            for container in self.containers:
                await self.engine.remove(container)

    async def remove(self) -> None:
        await self.stop()
        with translated_refusals():
            for volume in self.volumes:
                await self.engine.remove_volume(volume)
