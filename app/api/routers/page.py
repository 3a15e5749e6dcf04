"""The page at `/` and its static files."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, FastAPI, Response
from starlette.staticfiles import StaticFiles

from app import __version__
from app.errors import NotFoundError

STATIC = Path(__file__).parents[2] / "static"
PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}

router = APIRouter(include_in_schema=False)


def _read_page() -> str | None:
    """The page with the server's version in its place; None in an installation without it."""
    page = STATIC / "index.html"
    return page.read_text("utf-8").replace("{version}", __version__) if page.is_file() else None


_PAGE = _read_page()


@router.get("/")
async def get_page() -> Response:
    if _PAGE is None:
        raise NotFoundError("This installation has no page.")
    return Response(_PAGE, media_type="text/html; charset=utf-8", headers=PAGE_HEADERS)


def mount_static(app: FastAPI) -> None:
    """Serves the page's files under `/static`."""
    app.mount("/static", StaticFiles(directory=STATIC, check_dir=False), name="static")
