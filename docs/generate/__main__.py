"""`python -m docs.generate`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from docs.generate import DOCS
from docs.generate.architecture_page import architecture_page
from docs.generate.errors_page import errors_page
from docs.generate.settings_page import settings_page

PAGES: Mapping[str, Callable[[], str]] = {
    "settings": settings_page,
    "errors": errors_page,
    "architecture": architecture_page,
}


def outdated(names: Iterable[str], folder: Path) -> Iterator[tuple[Path, str]]:
    """The pages whose file is missing or differs, each with its expected text."""
    for name in names:
        path, text = folder / f"{name}.md", PAGES[name]()
        if not path.exists() or path.read_text("utf-8") != text:
            yield path, text


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status: 1 if `--check` found a page out of date."""
    parser = argparse.ArgumentParser(description="Write the generated pages of docs/.")
    parser.add_argument("page", nargs="*", help=f"{' or '.join(PAGES)}; default: all")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is out of date")
    parser.add_argument("--out", type=Path, default=DOCS, help="folder of the pages")
    options = parser.parse_args(arguments)
    if unknown := set(options.page) - set(PAGES):
        parser.error(f"no such page: {', '.join(sorted(unknown))}")
    stale = list(outdated(options.page or PAGES, options.out))
    for path, text in stale:
        if options.check:
            sys.stderr.write(f"{path.name} is out of date; run: make docs\n")
        else:
            path.write_text(text, "utf-8")
    return int(options.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
