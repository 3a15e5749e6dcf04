"""Requests as bytes, such as no HTTP library would send."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from tests.fuzz.values import anything, changed, encoded, hostile

SESSION = "{session}"
"""Placeholder in a target for the id of an existing session."""
PATHS = (
    "/v1/sessions",
    "/v1/sessions/{session}",
    "/v1/sessions/{session}/queue",
    "/v1/sessions/{session}/cancel",
    "/v1/sessions/{session}/resume",
    "/v1/sessions/{session}/fork",
    "/v1/sessions/{session}/messages",
    "/v1/sessions/{session}/steps",
    "/v1/sessions/{session}/context",
    "/v1/sessions/{session}/events",
    "/v1/sessions/{session}/files",
    "/v1/sessions/{session}/files/a.txt",
    "/v1/sessions/{session}/archive",
    "/v1/sessions/{session}/compactions",
    "/v1/sessions/{session}/compact",
    "/v1/sessions/{session}/approvals",
    "/v1/sessions/{session}/approvals/x",
    "/v1/sessions/{session}/tool-calls/x",
    "/v1/sessions/{session}/tool-calls/x/output",
    "/v1/sessions/not-an-id",
    "/v1/sessions/%00",
    "/v1/models",
    "/v1/events",
    "/openapi.json",
    "/healthz",
    "/readyz",
    "/metrics",
    "/",
    "/static/../../etc/passwd",
    "/static/%2e%2e/app.js",
    "//v1/sessions",
    "/v1/sessions/",
    "/v1//sessions",
    "/V1/SESSIONS",
    "*",
    "http://elsewhere.example/v1/sessions",
    "",
)
QUERIES = (
    "",
    "?",
    "?after=-1",
    "?after=99999999999999999999",
    "?after=%00",
    "?after=1&after=2",
    "?limit=0",
    "?limit=1e9",
    "?limit=9223372036854775808",
    "?until=idle",
    "?until=never",
    "?format=openai",
    "?format=xml",
    "?path=../..",
    "?path=%ff%fe",
    "?q=%22%20OR%20",
    "?unknown[]=1",
    "?" + "a=b&" * 2_000,
    "?%",
    "?;=&&==",
)
METHODS = (
    "GET",
    "POST",
    "PUT",
    "PATCH",
    "DELETE",
    "HEAD",
    "OPTIONS",
    "TRACE",
    "CONNECT",
    "get",
    "FOO",
    "",
    "G\x00T",
    "M" * 300,
)
HEADERS = (
    b"Content-Type: application/json",
    b"Content-Type: text/plain",
    b"Content-Type: application/json; charset=utf-16",
    b"Content-Type: multipart/form-data; boundary=x",
    b"Content-Type: \xff",
    b"Content-Type:",
    b"Content-Encoding: gzip",
    b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: gzip, chunked",
    b"Content-Length: 5",
    b"Content-Length: -1",
    b"Content-Length: 99999999999999999999",
    b"Content-Length: 1e3",
    b"Expect: 100-continue",
    b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    b"Upgrade: h2c",
    b"Connection: close",
    b"Last-Event-ID: 0",
    b"Last-Event-ID: -1",
    b"Last-Event-ID: 9223372036854775808",
    b"Last-Event-ID: 1e3",
    b"Last-Event-ID: \xc3\xa9",
    b"Last-Event-ID: \xff\x00",
    b"Last-Event-ID:",
    b"Range: bytes=0-0",
    b"Range: bytes=5-2,9-",
    b"Range: bytes=-99999999999999999999",
    b"Range: lines=1",
    b"If-Match: *",
    b"Accept: text/event-stream",
    b"Accept: */*;q=nan",
    b"Authorization: Bearer",
    b"Authorization: Basic \xff\xff",
    b"Origin: https://evil.example",
    b"Origin: null",
    b"Sec-Fetch-Site: cross-site",
    b"Cookie: a=" + b"b" * 5_000,
    b"X: " + b"y" * 20_000,
    b"Host: evil.example",
    b"Host:",
    b"X-Forwarded-For: ::::::",
    b"Bad Header: 1",
    b": none",
    b"no colon at all",
    b" folded: line",
    b"\x00: \x00",
)
BODIES = (
    {"content": "Go on."},
    {"content": "Go on.", "mode": "interrupt"},
    {"content": "Go on.", "mode": "follow_up"},
    {"clear_queue": True},
    {"title": "A", "metadata": {"a": 1}},
    {"limits": {"max_steps": 1}},
    {"decision": "approve"},
    {"task": "Write a file.", "model": "fake-openai/model", "tools": ["write_file"], "metadata": {}},
    {
        "history": {
            "format": "openai",
            "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
        }
    },
    {"approval": {"policy": {"commands": ["a"]}, "timeout_s": 1}},
    {"compaction": {"policy": "reactive"}},
    {"after_message_id": "{session}"},
)


@dataclass(frozen=True)
class Raw:
    """Bytes for a new connection. `framed`: the stated length is correct, so a response must come."""

    target: str
    data: bytes
    framed: bool


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """Nearly valid JSON, arbitrary JSON, and invalid JSON."""
    match draw(
        st.sampled_from(["sound", "changed", "changed", "changed", "anything", "bytes", "cut", "deep", "empty"])
    ):
        case "sound":
            return encoded(draw(st.sampled_from(BODIES)))
        case "changed":
            return encoded(draw(changed(draw(st.sampled_from(BODIES)))))
        case "anything":
            return encoded(draw(st.one_of(hostile, anything)))
        case "bytes":
            return draw(st.binary(max_size=100))
        case "cut":
            whole = encoded(draw(st.sampled_from(BODIES)))
            return whole[: draw(st.integers(0, len(whole)))]
        case "deep":
            depth = draw(st.sampled_from([100, 300, 5_000, 20_000]))
            return draw(
                st.sampled_from([b"[" * depth, b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth])
            )
        case _:
            return b""


@st.composite
def raw_requests(draw: st.DrawFn) -> Raw:
    """A request whose parts are each valid or not; or arbitrary bytes."""
    if draw(st.integers(0, 19)) == 0:
        return Raw("", draw(st.binary(min_size=1, max_size=200)) + b"\r\n\r\n", framed=False)
    usual = draw(st.integers(0, 2)) > 0
    method = draw(st.sampled_from(METHODS[:6] if usual else METHODS))
    path = draw(st.sampled_from(PATHS)) + draw(st.sampled_from(QUERIES))
    if draw(st.integers(0, 9)) == 0:
        path += draw(st.text(st.characters(codec="latin-1"), max_size=10))
    body = draw(bodies())
    headers = [b"Host: localhost"] if usual or draw(st.booleans()) else []
    if usual:
        headers += [b"Content-Type: application/json"]
    more = draw(st.lists(st.sampled_from(HEADERS), max_size=0 if usual and draw(st.booleans()) else 3))
    framed = not any(header.startswith((b"Content-Length", b"Transfer-Encoding", b"Expect")) for header in more)
    if framed and body:
        headers.append(b"Content-Length: %d" % len(body))
    version = "HTTP/1.1" if usual else draw(st.sampled_from(["HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTTP/9", "FTP", ""]))
    first = f"{method} {path} {version}".encode("latin-1", "replace")
    data = b"\r\n".join([first, *headers, *more, b"", b""]) + body
    if not usual and draw(st.integers(0, 5)) == 0:
        return Raw(path, data[: draw(st.integers(1, len(data)))], framed=False)
    return Raw(path, data, framed)
