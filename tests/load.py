"""How much the tests do: a share of their full load, which takes hours, unless PALIMPSEST_TEST_LONG=1."""

from __future__ import annotations

import os

LONG = os.environ.get("PALIMPSEST_TEST_LONG") == "1"
"""Whether the tests run at full load. Times are asserted too then, which needs an idle machine."""

CANCEL_S = 2.0 if LONG else 60.0
"""How soon a cancel must have ended, in seconds: what the contract says, and a limit for a busy machine, where a test
shows that a cancel does not wait for something that never comes."""
