"""How much the tests do: a share of their full load, which takes hours, unless PALIMPSEST_TEST_LONG=1."""

from __future__ import annotations

import os

LONG = os.environ.get("PALIMPSEST_TEST_LONG") == "1"
"""Whether the tests run at full load. Times are asserted too then, which needs an idle machine."""
