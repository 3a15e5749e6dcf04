"""Palimpsest: a self-hosted service that runs coding agents without ever running out of context."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("palimpsest")
except PackageNotFoundError:  # a checkout that was never installed
    __version__ = "0.0.0"
