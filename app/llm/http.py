"""HTTP access to a provider: one client each, raw bytes, every failure as a `ProviderError`."""

from __future__ import annotations

import email.utils
import math
import re
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any

import aiohttp
import httpx
import orjson

from app.errors import AnswerError, ProviderError
from app.json_bounds import has_more_values
from app.llm.reachability import UNREACHABLE, Reach, make_transport
from app.llm.windows import classify

CONNECT_TIMEOUT_S = 15.0
ERROR_BODY_BYTES = 64 * 1024
"""Maximum bytes read of an error answer; some gateways answer with entire web pages."""
ANSWER_BYTES = 8 * 1024 * 1024
"""Maximum bytes read of an answer without a stream: twice its text, including escapes."""
DOCUMENT_BYTES = 4 * 1024 * 1024
"""Maximum bytes read of a document about the server; the longest model list in use has about one million."""
DOCUMENT_VALUES = 200_000
"""Maximum values in such a document; the longest list has a fifth of it."""
CLIP_CHARS = 1000
_PIECE = 256 * 1024
UNPACKED_BYTES = 64 * 1024
"""Bytes of a compressed answer, which we never request, that are unpacked at a time: a few hundred kilobytes may be
gigabytes."""
_RETRYABLE = frozenset({408, 409, 425, 429, 529})
_KEY_REFUSED = frozenset({401, 403})
_CODES = {
    401: "provider_auth",
    403: "provider_auth",
    404: "provider_not_found",
    408: "provider_timeout",
    429: "provider_rate_limited",
    503: "provider_overloaded",
    529: "provider_overloaded",
}
_UNPAID = re.compile(
    r"^(?!.*retrydelay).*(?:insufficient[_ ](?:\w+[_ ])?(?:quota|balance|credits?|funds)"
    r"|exceeded[_ ](?:your[_ ])?current[_ ]quota|credit balance|billing[_ ](?:error|hard|not[_ ]active)|hard billing"
    r"|spending limit|payment required|requires more credits|(?:out of|used all)(?: \w+)? credits"
    r"|account is not active|余额不足|欠费)",
    re.I | re.S,
)
"""An account without money, which asking again does not fill. Gemini words a limit per minute in the same way, but says
when to retry."""
_KEY_LIKE = re.compile(r"\b(?:sk|pk|xai|gsk|key)-[A-Za-z0-9_\-]{12,}|(?<=Bearer )\S+|(?<=://)[^/@\s]+(?=@)")
_SSL_NOTE = re.compile(r" ssl:(?:default|True|False|None|<[^>]*>)")
"""Internals that aiohttp puts into its error texts."""


_MALFORMED_CALL = re.compile(
    r'"code"\s*:\s*"tool_use_failed"|error parsing tool call: raw=|failed to parse tool call arguments', re.I
)
"""How Groq, Ollama and llama.cpp report that they could not parse a call. A retry may succeed, and the text quotes the
model's output, so nothing must be learned from it."""


def unpacker(encoding: str) -> Callable[[bytes], Iterable[bytes]]:
    """What unpacks the next bytes of a body with this `Content-Encoding`. Raises `ProviderError` for more than one
    layer, which multiply, and for a compression that only programs use that ask for it. What it gives raises
    `zlib.error`."""
    match encoding.strip().lower():
        case "identity" | "":
            return lambda chunk: (chunk,)
        case "gzip" | "x-gzip" | "deflate":
            return partial(_inflate, zlib.decompressobj(zlib.MAX_WBITS | 32))  # 32: gzip or zlib
    raise ProviderError(f"The answer is compressed as {encoding[:100]!r}.", code="provider_bad_response")


def _inflate(stream: zlib._Decompress, chunk: bytes) -> Iterator[bytes]:
    while chunk and not stream.eof:
        piece = stream.decompress(chunk, UNPACKED_BYTES)
        chunk = stream.unconsumed_tail
        if piece:
            yield piece
    # zlib may hold back what it has read of a piece that is full.
    while piece := stream.decompress(b"", UNPACKED_BYTES):
        yield piece


class Answer:
    """A successful answer whose body has not been read yet."""

    def __init__(self, client: ProviderClient, response: httpx.Response) -> None:
        self._client = client
        self._response = response

    async def chunks(self) -> AsyncGenerator[bytes]:
        """The body as it arrives, unpacked in small pieces. Raises `ProviderError` if the connection fails or is silent
        for too long."""
        unpack = unpacker(self._response.headers.get("content-encoding", "identity"))
        stream = self._response.stream
        assert isinstance(stream, httpx.AsyncByteStream)
        try:
            # Not by `aiter_raw`, which passes each chunk through two more layers.
            async for chunk in stream:
                for piece in unpack(chunk):
                    yield piece
        except (httpx.HTTPError, aiohttp.ClientError, zlib.error, OSError) as exc:
            raise self._client.translate(exc) from exc

    async def read(self, limit: int = ANSWER_BYTES) -> bytes:
        """The body's first `limit` bytes."""
        body = bytearray()
        async for chunk in self.chunks():
            body += chunk
            if len(body) >= limit:
                break
        return bytes(body[:limit])


class ProviderClient:
    """Calls one provider. `secret` is its key, which is removed from every error text."""

    def __init__(
        self,
        name: str,
        base_url: str,
        headers: Mapping[str, str],
        *,
        secret: str | None,
        idle_timeout_s: float,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
    ) -> None:
        self._name = name
        self._base_url = base_url.rstrip("/")
        self._secret = secret
        self._idle_timeout_s = idle_timeout_s
        self.reach = Reach(name, self._base_url)
        self._client = httpx.AsyncClient(
            transport=make_transport(self._base_url),
            headers={"accept": "text/event-stream", "accept-encoding": "identity", **headers},
            timeout=httpx.Timeout(connect=connect_timeout_s, read=idle_timeout_s, write=None, pool=None),
            trust_env=False,
        )

    @asynccontextmanager
    async def post(self, path: str, body: bytes, headers: Mapping[str, str] | None = None) -> AsyncIterator[Answer]:
        """Posts a JSON body, with `headers` in addition to those of all requests. Leaving the context closes the
        connection unless the answer was read to its end.

        Raises `ContextOverflowError`, `AnswerError` for an error status, or another `ProviderError`.
        """
        headers = {"content-type": "application/json", "content-length": str(len(body)), **(headers or {})}
        self.reach.called()
        response = await self._send("POST", self._base_url + path, headers, body)
        del body  # it may have megabytes, and the answer may take minutes
        try:
            if response.status_code != 200:
                raise await self._refusal(response)
            self.reach.answered()
            yield Answer(self, response)
        finally:
            await response.aclose()

    async def document(self, path: str, *, unversioned: bool = False) -> Any:
        """The JSON document at `path` below the base URL, without its `/v1` if `unversioned`. Raises `ProviderError`,
        also if the answer is not JSON."""
        base = self._base_url.removesuffix("/v1") if unversioned else self._base_url
        response = await self._send("GET", base + path, {"accept": "application/json"})
        try:
            if response.status_code != 200:
                raise await self._refusal(response)
            body = await Answer(self, response).read(DOCUMENT_BYTES)
        finally:
            await response.aclose()
        try:
            if has_more_values(body, DOCUMENT_VALUES):
                raise ValueError("too many values")
            return orjson.loads(body)
        except ValueError as exc:
            detail = f"{self._name} did not answer with a JSON document."
            raise ProviderError(detail, code="provider_bad_response") from exc

    async def aclose(self) -> None:
        await self._client.aclose()

    def translate(self, exc: BaseException) -> ProviderError:
        """Converts a transport error. All of them are retryable."""
        if isinstance(exc, httpx.ReadTimeout | TimeoutError):
            detail = f"{self._name} sent nothing for {self._idle_timeout_s:g} seconds."
            self.reach.failed("provider_timeout")
            return ProviderError(detail, code="provider_timeout", retryable=True)
        self.reach.failed(UNREACHABLE)
        reason = self.scrub(_SSL_NOTE.sub("", str(exc))) or type(exc).__name__
        detail = f"The connection to {self._name} failed: {reason}"
        return ProviderError(
            detail, code="provider_unreachable", retryable=not isinstance(exc, httpx.UnsupportedProtocol)
        )

    def scrub(self, text: str) -> str:
        """`text` without keys, truncated."""
        if self._secret:
            text = text.replace(self._secret, "***")
        text = _KEY_LIKE.sub("***", text)
        return text if len(text) <= CLIP_CHARS else text[:CLIP_CHARS] + "…"

    def failure(
        self, status: int | None, body: str, *, http_status: int | None = None, headers: Mapping[str, str] | None = None
    ) -> ProviderError:
        """Converts an error document; `status` is the HTTP status, or the one in an error inside a stream, None if
        missing: then a server error is assumed."""
        body = body[:ERROR_BODY_BYTES]
        malformed = _MALFORMED_CALL.search(body) is not None
        if not malformed and (overflow := classify(status, body)):
            return overflow
        said = self.scrub(error_message(body))
        wait_s = retry_after_s(headers or {})
        unpaid = _UNPAID.search(body) is not None and (wait_s is None or "insufficient" in body.lower())
        retryable = malformed or status is None or status in _RETRYABLE or status >= 500
        retryable = retryable and not unpaid
        if not malformed and (retryable or status in _KEY_REFUSED):
            self.reach.failed(_code(status))
        what = f"{self._name} answered {status}" if status else f"{self._name} reported an error"
        return AnswerError(
            f"{what}: {said}" if said else f"{what}.",
            body="" if malformed else body,
            is_explained=malformed or unpaid,
            meant_status=status,
            code="provider_quota" if unpaid else _code(status),
            retryable=retryable,
            retry_after=wait_s,
            http_status=http_status,
        )

    async def _send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> httpx.Response:
        content = _pieces(body) if body is not None else None
        try:
            request = self._client.build_request(method, url, content=content, headers=headers)
            return await self._client.send(request, stream=True)
        except (httpx.HTTPError, httpx.InvalidURL, aiohttp.ClientError, OSError) as exc:
            raise self.translate(exc) from exc

    async def _refusal(self, response: httpx.Response) -> ProviderError:
        try:
            body = await Answer(self, response).read(ERROR_BODY_BYTES)
        except ProviderError as error:
            # An empty body would be mistaken for an overflow, which some servers report that way.
            body = error.detail.encode()
        status = response.status_code
        return self.failure(status, body.decode("utf-8", "replace"), http_status=status, headers=response.headers)


def error_message(body: str) -> str:
    """The message in an error document of any known shape, or the text itself."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return body.strip()
    if isinstance(document, list) and document:
        document = document[0]
    for key in ("error", "message", "detail"):
        value = document.get(key) if isinstance(document, dict) else None
        if isinstance(value, dict):
            value = value.get("message") or _as_json(value)
        if isinstance(value, str) and value:
            return value
    return body.strip()


def _as_json(value: dict[str, Any]) -> str | None:
    """None for what is nested more deeply than can be written, if not read."""
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError:
        return None


def retry_after_s(headers: Mapping[str, str], at: datetime | None = None) -> float | None:
    """The delay in seconds requested by `retry-after-ms` or `Retry-After` (seconds or an HTTP date)."""
    if (wish := _seconds(headers.get("retry-after-ms"))) is not None:
        return wish / 1000
    value = headers.get("retry-after")
    if value is None or (wish := _seconds(value)) is not None:
        return wish
    try:
        date = email.utils.parsedate_to_datetime(value)
        wait = date.replace(tzinfo=date.tzinfo or UTC) - (at or datetime.now(UTC))
    except (ValueError, OverflowError):
        return None
    return max(0.0, wait.total_seconds())


def _seconds(value: str | None) -> float | None:
    try:
        seconds = float(value) if value is not None else math.nan
    except ValueError:
        return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _code(status: int | None) -> str:
    if status is None or (status >= 500 and status not in _CODES):
        return "provider_server_error"
    return _CODES.get(status, "provider_bad_request" if 400 <= status < 500 else "provider_bad_response")


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    """The body in pieces, so that a large one does not block the event loop (aiohttp warns from 1 MiB)."""
    view = memoryview(body)
    for start in range(0, len(view), _PIECE):
        yield bytes(view[start : start + _PIECE])
