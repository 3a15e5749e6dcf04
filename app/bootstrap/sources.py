"""Where sessions may clone repositories from."""

from __future__ import annotations

import asyncio
import ipaddress

from app.runtime.sources import SecretOf, Sources, no_secret
from app.sandbox.egress.gateway import may_be_reached
from app.sandbox.host.cloning import Cloner
from app.settings import Settings


async def open_sources(settings: Settings, secret_of: SecretOf = no_secret) -> Sources:
    """Where sessions may clone from, with their secrets. Removes what earlier servers left."""

    def may_reach(address: str) -> bool:
        if may_be_reached(address):
            return True
        known = ipaddress.ip_address(address.partition("%")[0])
        return any(known in network for network in settings.git_networks if network.version == known.version)

    cloner = Cloner(settings.data_dir / "clones", may_reach, settings.git_known_hosts)
    await asyncio.to_thread(cloner.clear)
    return Sources(cloner, settings.sandbox_disk_mb * 2**20, secret_of)
