"""Bundles the page into app/static/bundle, as `make page` does: one script, one stylesheet, a worker, and a file for
each language that the worker colors.

The result is checked in, so that running or installing the server needs no Node, and a test fails if it is not made of
the sources as they are now. The server itself compares too: after an edit it serves the modules one by one, until the
page is bundled again. Needs npm, which fetches esbuild in the version below; no package's script runs.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess

from app.api.routers.page import BUNDLE, MANIFEST, MODULES, PAGE, STATIC, preload, sources

ESBUILD = "0.28.2"
OUTPUT = STATIC / BUNDLE
OPTIONS = (
    *("--bundle", "--minify", "--sourcemap", "--charset=utf8", "--log-level=warning"),
    # Browsers of 2023 and later, as the page's sources require.
    *("--format=esm", "--splitting", "--target=es2022"),
    f"--outdir={BUNDLE}",
)


def bundle(*arguments: str) -> None:
    """Runs esbuild in `static`. Raises `CalledProcessError`."""
    command = ["npm", "exec", "--yes", "--ignore-scripts", f"--package=esbuild@{ESBUILD}", "--", "esbuild"]
    subprocess.run([*command, *OPTIONS, *arguments], cwd=STATIC, check=True)


def index(source: str) -> str:
    """The page's HTML, with the bundle in the place of its styles and modules."""
    text = source.replace(MODULES, preload(f"{BUNDLE}/page/main.js"))
    for path, bundled in {"styles/page.css": "page/page.css", "start.js": "page/start.js"}.items():
        assert f"/static/{path}" in text
        text = text.replace(f"/static/{path}", f"/static/{BUNDLE}/{bundled}")
    return text


def main() -> None:
    shutil.rmtree(OUTPUT, ignore_errors=True)
    # In a folder of their own, modules find the worker by the relative address that their sources have.
    bundle("start.js", "main.js", "styles/page.css", "--entry-names=page/[name]", "--chunk-names=later/[name]-[hash]")
    bundle("worker.js", "--chunk-names=languages/[name]-[hash]")
    (OUTPUT / PAGE).write_text(index((STATIC / PAGE).read_text("utf-8")), "utf-8")
    manifest = {"esbuild": ESBUILD, "sources": asyncio.run(sources())}
    (STATIC / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
    files = [path for path in OUTPUT.rglob("*") if path.is_file() and path.suffix != ".map"]
    print(f"{len(files)} files, {sum(path.stat().st_size for path in files):,} bytes")


if __name__ == "__main__":
    main()
