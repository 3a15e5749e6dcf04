"""The MCP servers of a session as requests name them."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

import httpx
import orjson
from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from app.messages import Value, clean_text
from app.runtime.values.secrets import SecretName

MAX_SERVERS = 16
MAX_CONFIG_BYTES = 32 * 1024
"""Size of all servers of a session as JSON: they are in the session's row."""
MAX_NAMED_TOOLS = 200
MAX_VALUES = 32
"""Headers, or variables, of a server."""
SERVER_PATTERN = r"^[a-zA-Z0-9](?:_?[a-zA-Z0-9-])*$"
"""Names of servers are part of the names of their tools, so they have no two underscores in a row, and none at the
end."""
MAX_SERVER_CHARS = 32
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_OURS = frozenset(
    {"accept", "accept-encoding", "connection", "content-length", "content-type", "host", "last-event-id"}
    | {"transfer-encoding", "upgrade"}
)
"""Headers that the transport sets; those of the protocol begin with `mcp-`."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_NOT_OURS = frozenset({"HOME", "PATH", "PWD", "TMPDIR", "USER"})


def _server_name(text: str) -> str:
    if not re.fullmatch(SERVER_PATTERN, text) or len(text) > MAX_SERVER_CHARS:
        raise PydanticCustomError(
            "mcp_server_name",
            "A server's name should have at most {most} letters, digits, hyphens and single underscores",
            {"most": MAX_SERVER_CHARS},
        )
    return text


def _url(text: str) -> str:
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL:
        url = httpx.URL()
    if url.scheme not in ("http", "https") or not url.host or url.userinfo or url.fragment:
        raise PydanticCustomError("mcp_url", "Input should be an http or https URL without user and fragment")
    return text


def _line(text: str) -> str:
    if clean_text(text) != text or "\r" in text or "\n" in text:
        raise PydanticCustomError("mcp_value", "A value should be one line of text")
    return text


def _argument(text: str) -> str:
    if clean_text(text) != text:
        raise PydanticCustomError("mcp_value", "Input should have neither NUL nor halves of surrogate pairs")
    return text


Line = Annotated[str, AfterValidator(_line), StringConstraints(max_length=8_000)]
Argument = Annotated[str, AfterValidator(_argument), StringConstraints(max_length=8_000)]


class SecretRef(Value):
    """A value that is a secret of the session, such as `{"secret": "TOKEN", "prefix": "Bearer "}`."""

    secret: SecretName
    prefix: Annotated[Line, StringConstraints(max_length=100)] = Field(
        default="", description="Text in front of the secret."
    )


def _value(value: Any) -> Any:
    """Text or a reference, depending on the input's type, so that errors never mention the other form."""
    if isinstance(value, dict):
        return SecretRef.model_validate(value)
    if isinstance(value, str | SecretRef):
        return value
    raise PydanticCustomError("mcp_value", "Input should be text or an object that names a secret")


GivenValue = Annotated[Line | SecretRef, BeforeValidator(_value)]


def _headers(headers: dict[str, Any]) -> dict[str, Any]:
    for name, value in headers.items():
        if not _HEADER.fullmatch(name) or name.lower() in _OURS or name.lower().startswith("mcp-"):
            raise PydanticCustomError("mcp_header", "A header should not be one that the protocol sets")
        if isinstance(value, str) and not value.isascii():
            raise PydanticCustomError("mcp_header", "The value of a header should be ASCII")
    return headers


def _variables(env: dict[str, Any]) -> dict[str, Any]:
    for name in env:
        if not _VARIABLE.fullmatch(name) or name in _NOT_OURS or name.startswith("LD_"):
            raise PydanticCustomError("mcp_variable", "A variable should not be one that the sandbox sets")
    return env


class McpApproval(Value):
    """Which of a server's tools need approval, by the names that the server gives them."""

    tools: Annotated[list[Argument], Field(max_length=MAX_NAMED_TOOLS)] = Field(examples=[["delete_issue"]])


def _approval(value: Any) -> Any:
    if isinstance(value, dict):
        return McpApproval.model_validate(value)
    if value not in ("never", "always") and not isinstance(value, McpApproval):
        raise PydanticCustomError("mcp_approval", "Input should be 'never', 'always' or an object")
    return value


class McpServer(Value):
    """A server: the URL of one that speaks streamable HTTP, or a command that runs in the session's sandbox and speaks
    on its standard input and output."""

    url: Annotated[str, AfterValidator(_url), StringConstraints(max_length=2_000)] | None = Field(
        default=None, examples=["https://mcp.example.com/mcp"]
    )
    headers: Annotated[dict[str, GivenValue], Field(max_length=MAX_VALUES), AfterValidator(_headers)] | None = Field(
        default=None,
        description="Headers of every request to the URL.",
        examples=[{"Authorization": {"secret": "DOCS_TOKEN", "prefix": "Bearer "}}],
    )
    command: Annotated[Argument, StringConstraints(min_length=1)] | None = Field(
        default=None, description="The program; found in the sandbox's `PATH`.", examples=["npx"]
    )
    args: Annotated[list[Argument], Field(max_length=100)] | None = Field(
        default=None, examples=[["-y", "@modelcontextprotocol/server-filesystem", "/workspace"]]
    )
    env: Annotated[dict[str, GivenValue], Field(max_length=MAX_VALUES), AfterValidator(_variables)] | None = Field(
        default=None,
        description="Environment variables of the command, which gets no others of the session.",
        examples=[{"TRACKER_TOKEN": {"secret": "TRACKER_TOKEN"}, "LOG_LEVEL": "warn"}],
    )
    tools: Annotated[list[Argument], Field(max_length=MAX_NAMED_TOOLS)] | None = Field(
        default=None,
        description="The tools to offer, by the server's own names; all of them if omitted.",
        examples=[["search"]],
    )
    approval: Annotated[Literal["never", "always"] | McpApproval, BeforeValidator(_approval)] = Field(
        default="never", description="Which calls need approval, in addition to the session's `approval`."
    )

    @model_validator(mode="after")
    def _is_one_kind(self) -> Self:
        of_url, of_command = self.url is not None, self.command is not None
        if of_url == of_command:
            raise PydanticCustomError("mcp_server", "A server should have either a URL or a command")
        if (of_url and (self.args is not None or self.env is not None)) or (of_command and self.headers is not None):
            raise PydanticCustomError("mcp_server", "A URL has headers; a command has args and env")
        return self

    def stored(self) -> dict[str, Any]:
        """As in the session's row."""
        return self.model_dump(mode="json", exclude_defaults=True)


def _servers(servers: dict[str, Any]) -> dict[str, Any]:
    for name in servers:
        _server_name(name)
    stored = {name: server and server.stored() for name, server in servers.items()}
    if len(orjson.dumps(stored)) > MAX_CONFIG_BYTES:
        raise PydanticCustomError("mcp_servers", "All servers together should have at most 32 KiB")
    return servers


McpServers = Annotated[
    dict[str, McpServer | None],
    Field(
        max_length=MAX_SERVERS,
        description="MCP servers by name, in addition to the operator's; null for a name leaves one of those out. A"
        " `PATCH` keeps servers that it does not name.",
        json_schema_extra={"propertyNames": {"pattern": SERVER_PATTERN, "maxLength": MAX_SERVER_CHARS}},
        examples=[{"docs": {"url": "https://mcp.example.com/mcp", "tools": ["search"]}}],
    ),
    AfterValidator(_servers),
]
