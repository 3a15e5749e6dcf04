"""Tests of the page in a real browser, with the real server, the strict fake provider and a real sandbox."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.dashboard.browser", "tests.dashboard.places")

IN_BROWSER = (pytest.mark.chromium, pytest.mark.asyncio(loop_scope="session"))
"""Marks for every module here: all tests of a worker share one browser and one server, and so an event loop."""
