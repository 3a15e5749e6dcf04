"""The page in a real browser, against the real server, the strict provider and a real sandbox."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.dashboard.browser", "tests.dashboard.places")

IN_BROWSER = (pytest.mark.chromium, pytest.mark.asyncio(loop_scope="session"))
"""What every module here is marked with: one browser and one server serve all tests of a worker, so they share its
event loop."""
