"""Settings that are lists: written with commas between their items, or as a JSON array."""

from __future__ import annotations

import json
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, PlainValidator, SecretStr
from pydantic_settings import NoDecode

from app.sessions import AllowedHosts


def _split(value: Any) -> Any:
    """The items of a list, which is written with commas or as a JSON array."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        try:
            return tuple(json.loads(value))
        except ValueError:
            raise ValueError("it is not a JSON array; write its items with commas between them") from None
    return tuple(item.strip() for item in value.split(",") if item.strip())


def _network(value: Any) -> Any:
    try:
        return ip_network(value)
    except ValueError as error:
        raise ValueError(f"{error}; write networks such as 10.1.0.0/16, with commas between them") from None


def _sandbox_network(value: Any) -> Any:
    """A list of hosts is what commands can reach."""
    if not isinstance(value, str | list) or value in ("on", "off"):
        return value
    try:
        return AllowedHosts(allowed_hosts=_split(value))
    except ValueError:
        form = "write on, off, or hosts such as example.com and *.example.org, with commas between them"
        raise ValueError(f"{value!r} names no network; {form}") from None


Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
Keys = Annotated[tuple[SecretStr, ...], NoDecode, BeforeValidator(_split)]
Networks = Annotated[
    tuple[Annotated[IPv4Network | IPv6Network, PlainValidator(_network)], ...], NoDecode, BeforeValidator(_split)
]
SandboxNetwork = Annotated[Literal["on", "off"] | AllowedHosts, BeforeValidator(_sandbox_network)]
