"""The page: its files as a browser gets them, their headers, and that it loads nothing from elsewhere."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from app import __version__
from app.api.routers import page as files
from tests.behavior.conftest import StartServer
from tests.behavior.harness import Client
from tests.behavior.process import ROOT
from tests.behavior.test_bad_input import assert_refused

pytestmark = pytest.mark.shared_server

STATIC = ROOT / "app" / "static"
PLAIN = {"Accept-Encoding": "identity"}
HTML, JS, CSS, SVG = ("text/html", "text/javascript", "text/css", "image/svg+xml")
TYPE_OF = {".html": HTML, ".js": JS, ".css": CSS, ".svg": SVG}

IMPORT = re.compile(r"""(?<!["'\w.])(?:import|export)\b(?:[\w\s*{},$]*\bfrom)?\s*\(?\s*["']([^"'\n]+)["']""")
"""The modules that a module loads, by any form of import."""

WORKER = re.compile(r"""new URL\("(\.[^"]+)",\s*import\.meta\.url\)""")


@pytest.fixture
async def keyless(server_with: StartServer) -> AsyncIterator[Client]:
    """An unauthenticated client of a server with API keys."""
    async with Client(server_with(api_keys=(SecretStr("a-key-of-the-test"),)).url) as client:
        yield client


@pytest.fixture
def edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An edited module, so that the page is served from its sources."""
    shutil.copytree(STATIC, tmp_path / "static")
    with (tmp_path / "static" / "main.js").open("a") as module:
        module.write("// edited")
    (tmp_path / "static" / ".#main.js").symlink_to("nobody@nowhere")  # an editor's lock
    monkeypatch.setattr(files, "STATIC", tmp_path / "static")
    monkeypatch.setattr(files, "_version", None)


def linked(page: str) -> list[str]:
    """The addresses that the page's head and scripts load."""
    return re.findall(r"""<(?:link|script)\b[^>]*\b(?:href|src)="([^"]+)""", page)


def without_comments(module: str) -> str:
    return re.sub(r"/\*.*?\*/|^\s*//.*$", "", module, flags=re.DOTALL | re.MULTILINE)


async def loaded(client: Client) -> dict[str, httpx.Response]:
    """Everything that a browser loads to show the page, by address: links, and the imports of all modules."""
    found: dict[str, httpx.Response] = {}
    waiting = ["/"]
    while waiting:
        address = waiting.pop()
        if address in found:
            continue
        answer = found[address] = await client.http.get(address)
        assert answer.status_code == 200, f"{address} is missing"
        if address == "/":
            waiting += linked(answer.text)
        elif address.endswith(".js"):
            targets = IMPORT.findall(without_comments(answer.text)) + WORKER.findall(answer.text)
            assert not [target for target in targets if not target.startswith(("./", "../"))], address
            waiting += [httpx.URL(address).join(target).path for target in targets]
    return found


async def test_everything_that_the_page_loads_is_served_without_a_key(keyless: Client) -> None:
    found = plain(await loaded(keyless))
    assert {"/static/bundle/page/main.js", "/static/bundle/worker.js"} <= found.keys()
    assert_types(found)
    later = [address for address in found if re.search("/languages/|/later/|/worker.js$", address)]
    assert len(found) - len(later) <= 5, "what a browser fetches to show the list of sessions"


@pytest.mark.usefixtures("edited")
@pytest.mark.slow
async def test_an_edited_page_is_served_from_its_sources(keyless: Client) -> None:
    found = plain(await loaded(keyless))
    assert {"/static/main.js", "/static/worker.js", "/static/vendor/preact.js"} <= found.keys()
    assert found["/static/main.js"].text.endswith("// edited")
    assert len(found) > 40
    assert_types(found)
    for path in re.findall('@import "(.*)";', found["/static/styles/page.css"].text):
        assert (await keyless.http.get(f"/static/styles/{path}")).status_code == 200


def plain(found: dict[str, httpx.Response]) -> dict[str, httpx.Response]:
    """The same answers, without the version in their addresses."""
    return {re.sub("v-[0-9a-f]{16}/", "", address): answer for address, answer in found.items()}


def assert_types(found: dict[str, httpx.Response]) -> None:
    for address, answer in found.items():
        expected = HTML if address == "/" else TYPE_OF[Path(address).suffix]
        assert answer.headers["content-type"].partition(";")[0] == expected, address


async def test_the_bundle_is_made_of_the_sources() -> None:
    assert await files.is_bundled(), "a file of the page has changed: run make page"


async def test_the_bundle_names_its_sources_for_a_debugger(client: Client) -> None:
    for path in ("page/main.js", "page/page.css", "worker.js"):
        address = f"/static/bundle/{path}"
        (name,) = re.findall(r"sourceMappingURL=(\S+)", (await client.http.get(address)).text)
        map_ = (await client.http.get(str(httpx.URL(address).join(name)))).json()
        assert len(map_["sources"]) == len(map_["sourcesContent"]) > 1
        for source, content in zip(map_["sources"], map_["sourcesContent"], strict=True):
            assert (await client.http.get(str(httpx.URL(address).join(source)))).text == content


async def test_files_are_compressed_for_those_who_accept_it(client: Client) -> None:
    for address in ("/static/bundle/page/main.js", "/static/styles/views.css"):
        whole = await client.http.get(address, headers={"Accept-Encoding": "identity"})
        assert "content-encoding" not in whole.headers
        small = await client.http.get(address, headers={"Accept-Encoding": "br, gzip"})
        assert (small.headers["content-encoding"], small.content) == ("gzip", whole.content)
        assert int(small.headers["content-length"]) < len(whole.content) / 2
        assert small.headers["vary"] == whole.headers["vary"] == "Accept-Encoding"
        refused = await client.http.get(address, headers={"Accept-Encoding": "gzip;q=0"})
        assert "content-encoding" not in refused.headers
        known = await client.http.get(address, headers={"If-None-Match": small.headers["etag"]})
        assert known.status_code == 304


async def test_the_page_is_small(client: Client) -> None:
    answers = [await client.http.get(name) for name in linked((await client.http.get("/")).text)]
    assert 50_000 < sum(int(answer.headers["content-length"]) for answer in answers) <= 250_000


async def test_the_page_and_its_files_have_strict_security_headers(client: Client) -> None:
    addresses = ["/", "/static/index.html", "/static/main.js", "/static/icon.svg", "/static/styles/base.css"]
    for answer in [await client.http.get(address) for address in addresses]:
        policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
        assert policy == {
            "default-src": "'none'",
            **dict.fromkeys(("script-src", "worker-src", "style-src", "img-src", "connect-src"), "'self'"),
            **dict.fromkeys(("base-uri", "form-action", "frame-ancestors"), "'none'"),
            "trusted-types": "worker",
            "require-trusted-types-for": "'script'",
        }
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        allowed = answer.headers["permissions-policy"]
        assert {"camera=()", "microphone=()", "geolocation=()"} <= set(allowed.split(", "))


def test_the_page_has_no_inline_code() -> None:
    page = (STATIC / "index.html").read_text("utf-8")
    assert re.findall(r"<script\b[^>]*>([^<]*)</script>", page) == [""], "no inline script"
    assert not re.search(r"<style|\bstyle=|\bon[a-z]+=|javascript:", page)
    assert "//" not in page, "nothing comes from elsewhere"
    assert 'href="/openapi.json"' in page.partition("<noscript>")[2]


def test_the_modules_insert_no_markup() -> None:
    modules = [path for path in STATIC.rglob("*.js") if not {"vendor", "bundle"} & set(path.parts)]
    assert len(modules) > 20
    sinks = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\.srcdoc"
        r"|\beval\(|new Function|createHTML|createScript\b"
    )
    for path in modules:
        text = without_comments(path.read_text("utf-8"))
        assert not sinks.search(text), path
        assert not re.search(r"""\bfetch\(\s*["'`]https?:|<(?:img|script|link|iframe)\b""", text), path


async def test_an_unchanged_file_is_not_sent_again(client: Client) -> None:
    for address in ("/", "/docs", "/static/main.js", "/static/vendor/uplot.css"):
        first = await client.http.get(address)
        assert first.headers["cache-control"] == "no-cache"
        tag = first.headers["etag"].removeprefix("W/")
        for known in (tag, f"W/{tag}", f'"other", {tag}'):
            again = await client.http.get(address, headers={"If-None-Match": known})
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", f"W/{tag}")
            assert again.headers["cache-control"] == "no-cache"
        for unknown in ('"other"', tag.strip('"'), "*x"):
            assert (await client.http.get(address, headers={"If-None-Match": unknown})).content == first.content


async def test_files_under_a_version_address_are_cached_permanently(client: Client) -> None:
    page = (await client.http.get("/")).text
    addresses = linked(page)
    (version,) = {address.split("/")[2] for address in addresses}
    assert re.fullmatch("v-[0-9a-f]{16}", version)
    for address in addresses:
        answer = await client.http.get(address)
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        plain = await client.http.get(address.replace(f"{version}/", ""))
        assert (plain.content, plain.headers["cache-control"]) == (answer.content, "no-cache")
    earlier = await client.http.get("/static/v-0123456789abcdef/main.js")
    assert (earlier.status_code, earlier.headers["cache-control"]) == (200, "no-cache"), (
        "as requested by a page that was left open"
    )


@pytest.mark.usefixtures("edited")
@pytest.mark.slow
async def test_the_page_preloads_all_modules_that_it_loads_at_start(keyless: Client) -> None:
    page = (await keyless.http.get("/")).text
    named = set(re.findall(r'<link rel="modulepreload" href="([^"]+)"', page))
    (start,) = re.findall(r'<script\b[^>]*\bsrc="([^"]+)"', page)
    modules = {address for address in await loaded(keyless) if address.endswith(".js")}
    # The worker loads these when it has a text to parse.
    later = ("/worker.js", "/core/colors.js", "/vendor/highlight/core.js")
    assert {address for address in modules if not address.endswith(later)} == {*named, start}


async def test_head_requests_return_headers_only(client: Client) -> None:
    for address in ("/", "/static/main.js"):
        head, whole = [await client.http.request(method, address, headers=PLAIN) for method in ("HEAD", "GET")]
        assert head.status_code == 200
        assert head.content == b""
        assert head.headers["etag"] == whole.headers["etag"]
        assert head.headers["content-length"] == str(len(whole.content))


@pytest.mark.parametrize(
    "path",
    [
        "/static/absent.js",
        "/static/",
        "/static/styles",
        "/static/styles/",
        "/static//main.js",
        "/static/%2e/main.js",
        "/static/%2e%2e/api/main.html",
        "/static/%2e%2e/__init__.py",
        "/static/..%2f..%2fpyproject.toml",
        "/static/%2fetc%2fhostname.txt",
        "/static//etc/debian_version.txt",
        "/static/styles/..%2fmain.js",
        "/static/main.js%00",
        "/static/main.js%00.js",
        "/static/%ff.js",
        "/static/" + "a" * 5_000 + ".js",
        "/static/main.py",
        "/static/MAIN.JS",
    ],
)
async def test_other_paths_are_not_found(client: Client, path: str) -> None:
    url = client.http.base_url.copy_with(raw_path=path.encode())
    assert_refused(await client.http.get(url), 404, "not_found")


async def test_the_page_and_its_files_are_read_only(client: Client) -> None:
    for address in ("/", "/static/main.js"):
        answer = await client.http.post(address, json={})
        assert_refused(answer, 405, "method_not_allowed")
        assert answer.headers["allow"] == "GET, HEAD"


async def test_the_page_does_not_depend_on_the_request(client: Client) -> None:
    """No header or query parameter appears in it."""
    port = client.http.base_url.port
    plain = (await client.http.get("/")).text
    named = await client.http.get("/?x=<script>", headers={"Host": f"localhost:{port}", "X-Forwarded-Host": "evil"})
    assert named.text == plain
    assert __version__ not in plain
    assert json.dumps(str(client.http.base_url)) not in plain
