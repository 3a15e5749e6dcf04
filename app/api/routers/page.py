"""The page at `/` and its static files."""

from __future__ import annotations

import html
import re
from pathlib import Path

from fastapi import APIRouter, FastAPI, Request, Response
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

_BLOCK = re.compile(r"<!-- (with|without) a key -->\n(.*?)<!-- / -->\n", re.DOTALL)

router = APIRouter(include_in_schema=False)


def _read_page() -> str | None:
    """The page with the server's version in its place; None in an installation without it."""
    page = STATIC / "index.html"
    return page.read_text("utf-8").replace("{version}", __version__) if page.is_file() else None


_PAGE = _read_page()


def render(page: str, origin: str, *, keyed: bool) -> str:
    """The page under the address that the browser knows, with what holds for a server that asks for a key, or for
    one that does not."""
    kept = "with" if keyed else "without"
    page = _BLOCK.sub(lambda block: block[2] if block[1] == kept else "", page)
    return page.replace("{origin}", html.escape(origin))


@router.get("/")
async def get_page(request: Request) -> Response:
    if _PAGE is None:
        raise NotFoundError("This installation has no page.")
    origin = f"{request.url.scheme}://{request.headers['host']}"
    page = render(_PAGE, origin, keyed=bool(request.app.state.config.api_keys))
    return Response(page, media_type="text/html; charset=utf-8", headers=PAGE_HEADERS)


def mount_static(app: FastAPI) -> None:
    """Serves the page's files under `/static`."""
    app.mount("/static", StaticFiles(directory=STATIC, check_dir=False), name="static")
