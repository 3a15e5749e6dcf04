"""Views of files with unusual values set by a command."""

from __future__ import annotations

import pytest

from app.errors import PalimpsestError
from app.runtime.services.files import LISTED_BYTES, LISTED_FILES, _file_view, _within_bounds, most_listed
from app.runtime.values.history import FileList
from app.sandbox.base import FileInfo


@pytest.mark.parametrize(
    ("modified", "year"), [(0.0, 1970), (-1.5, 1969), (1e12, 9999), (1e30, 9999), (-1e12, 1), (-1e30, 1)]
)
def test_a_time_out_of_range_is_clamped(modified: float, year: int) -> None:
    assert _file_view(FileInfo("a", "file", 1, modified))["modified_at"][:4] == f"{year:04}"


def test_ten_thousand_ordinary_entries_are_listed() -> None:
    found = [FileInfo(f"{'p' * 100}/{number:06}", "file", 2**40, 1e9 + number) for number in range(LISTED_FILES + 1)]
    assert most_listed("p" * 100) == LISTED_FILES
    assert len(list(_within_bounds(found, LISTED_FILES))) == LISTED_FILES


@pytest.mark.parametrize(
    "name", ["n", "n" * 255, "\x01" * 255, "\N{GRINNING FACE}" * 60, "\N{REPLACEMENT CHARACTER}" * 255]
)
@pytest.mark.parametrize("above", ["", "/".join(["d" * 250] * 15), "/".join(["ü" * 120] * 16), "\x01" * 250])
def test_a_listing_is_bounded_in_size(above: str, name: str) -> None:
    """For any paths, neither the entries read nor the answer exceed the bound."""
    most = most_listed(above)
    path = f"{above}/{name}" if above else name
    found = [FileInfo(path, "directory", 2**63, 1e12) for _ in range(most + 1)]
    assert sum(len(info.path.encode()) for info in found) < 4 * LISTED_BYTES
    items = tuple(_within_bounds(found, most))
    answer = FileList(path=above or ".", items=items, truncated=True).model_dump_json().encode()
    assert len(answer) < LISTED_BYTES + 10_000
    assert len(items) >= min(most, 300)


@pytest.mark.parametrize(("path", "code"), [("a/../..", "outside_workspace"), ("n" * 256, "invalid_path")])
def test_an_invalid_path_has_no_listing(path: str, code: str) -> None:
    with pytest.raises(PalimpsestError) as refused:
        most_listed(path)
    assert refused.value.code == code
