from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page

from tests.behavior.harness import Client
from tests.dashboard.browser import Faults, launched, watched
from tests.dashboard.site import Site, serving
from tests.requirements import need

EMPTY = '<!doctype html><link rel="icon" href="data:,">'


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The server shared by all tests that leave it running; each test has its own sessions."""
    need("chromium")
    need("bubblewrap")
    with serving(tmp_path_factory.mktemp("site")) as site:
        yield site


ServeSite = Callable[..., AbstractContextManager[Site]]


@pytest.fixture
def own_site(tmp_path_factory: pytest.TempPathFactory) -> ServeSite:
    """Starts a separate server for one test, with the given sandbox and environment."""
    need("chromium")
    need("bubblewrap")

    def serve(sandbox: str = "bubblewrap", **environment: str) -> AbstractContextManager[Site]:
        return serving(tmp_path_factory.mktemp("own"), sandbox, **environment)

    return serve


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with launched() as browser:
        yield browser


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def empty_page(site: Site, browser: Browser) -> AsyncIterator[tuple[Page, Faults]]:
    """An empty page on the server's origin."""
    async with watched(browser, site.url) as (context, faults):
        await context.route("**/empty", lambda route: route.fulfill(content_type="text/html", body=EMPTY))
        page = await context.new_page()
        await page.goto("/empty")
        yield page, faults


@pytest.fixture
def bare(empty_page: tuple[Page, Faults]) -> Iterator[Page]:
    """An empty page that loads single modules instead of the whole page."""
    page, faults = empty_page
    yield page
    assert not faults.found, "\n".join(faults.found)


@pytest_asyncio.fixture(loop_scope="session")
async def watch(site: Site, browser: Browser) -> AsyncIterator[tuple[BrowserContext, Faults]]:
    """A fresh profile on the shared server, and the problems in its pages."""
    async with watched(browser, site.url) as pair:
        yield pair


@pytest.fixture
def context(watch: tuple[BrowserContext, Faults]) -> BrowserContext:
    return watch[0]


@pytest.fixture
def faults(watch: tuple[BrowserContext, Faults]) -> Faults:
    return watch[1]


@pytest_asyncio.fixture(loop_scope="session")
async def page(context: BrowserContext) -> Page:
    """An empty page of a fresh profile."""
    return await context.new_page()


@pytest_asyncio.fixture(loop_scope="session")
async def client(site: Site) -> AsyncIterator[Client]:
    """A client that calls the shared server directly."""
    async with Client(site.url) as client:
        yield client
