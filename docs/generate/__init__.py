"""Generates the pages of `docs/` that come from the code: `settings.md`, `errors.md` and `architecture.md`.

`python -m docs.generate` writes them; `--check` writes nothing and fails if one is out of date; a page's name limits
either to that page. Settings come from the fields of `app/settings.py`, errors from the whole source of `app/` and
`evals/`, since many codes are set where an error is raised, and the architecture from imports and docstrings.
"""

from __future__ import annotations

from pathlib import Path

DOCS = Path(__file__).resolve().parents[1]
APP = DOCS.parent / "app"
