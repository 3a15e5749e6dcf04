"""Views of files with unusual values set by a command."""

from __future__ import annotations

import pytest

from app.runtime.services.files import _file_view
from app.sandbox.base import FileInfo


@pytest.mark.parametrize(
    ("modified", "year"), [(0.0, 1970), (-1.5, 1969), (1e12, 9999), (1e30, 9999), (-1e12, 1), (-1e30, 1)]
)
def test_a_time_out_of_range_is_clamped(modified: float, year: int) -> None:
    assert _file_view(FileInfo("a", "file", 1, modified)).modified_at.year == year
