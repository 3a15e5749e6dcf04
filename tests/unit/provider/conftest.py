from __future__ import annotations

from tests.provider.fixtures import provider

__all__ = ["provider"]
