"""The directory of all that a server stores."""

from __future__ import annotations

import os
from pathlib import Path

from app.bootstrap import prepare_data_dir
from app.settings import Settings


def test_what_is_stored_is_closed_to_other_users(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        settings = Settings(_env_file=None, data_dir=tmp_path / "made" / "data")
        prepare_data_dir(settings)
    finally:
        os.umask(before)
    assert settings.data_dir.stat().st_mode & 0o777 == 0o700
