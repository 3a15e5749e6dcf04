"""The service's settings, read from the environment and from a `.env` file in the working directory.

Each field has its description; `docs/settings.md` is generated from them. Only `bootstrap`, the API's startup and the
CLI read the settings.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from app.llm.base import ModelSettings
from app.messages import Value
from app.sessions import MIN_CPUS, AllowedHosts, Limits, SandboxKind
from app.settings_lists import Keys, Names, Networks, SandboxNetwork

DEMO_MODEL = "scripted/demo"
CACHE_DIRECTORIES = (
    *("node_modules", ".venv", "venv", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox"),
    *(".cache", ".gradle", ".next"),
)


class ProviderSettings(Value):
    """A named provider: its wire format, its address, and the environment variable that holds its key."""

    kind: Literal["openai-responses", "openai", "anthropic"]
    base_url: str
    api_key_env: str | None = None


class LimitSettings(Limits):
    """The highest limits a session may request; None is unlimited."""

    max_steps: int | None = Field(None, ge=1)


def _no_limit(value: Any) -> Any:
    return None if value == "none" else value


NameOrJson = Annotated[
    dict[str, Any] | str, BeforeValidator(lambda value: value.strip() if isinstance(value, str) else value)
]
AbsolutePath = Annotated[Path, AfterValidator(lambda path: path.expanduser().absolute())]


class Settings(BaseSettings):
    """Settings of one server. Names in the environment are `PALIMPSEST_` and the field's name in capitals, unless
    the field has an alias."""

    model_config = SettingsConfigDict(
        env_prefix="PALIMPSEST_", env_file=".env", extra="ignore", populate_by_name=True, env_ignore_empty=True
    )

    host: str = Field("127.0.0.1", description="Address to listen on; any address except loopback needs `api_keys`.")
    port: int = Field(8000, ge=0, le=65535, description="Port to listen on; 0 picks a free one.")
    data_dir: AbsolutePath = Field(
        Path("~/.local/share/palimpsest"),
        validate_default=True,
        description="Where the database, raw outputs and workspaces are kept; created with mode 0700. An"
        " existing directory keeps its mode; the server warns at startup if other users can access it.",
    )
    database_url: str | None = Field(
        None,
        description="SQLAlchemy URL of the database, such as `postgresql://user@host/name`, which needs"
        " `palimpsest[postgres]`; by default `palimpsest.db` in the data directory (SQLite).",
    )
    broker: SecretStr | None = Field(
        None,
        description="URL of the Redis server that carries live text between servers that share a database, such as"
        " `redis://:PASSWORD@HOST:6379` or `rediss://…` with TLS; needs `palimpsest[cluster]`.",
    )
    temporal: str | None = Field(
        None,
        description="Address of a Temporal server, `host:port`: this server becomes a node of a cluster, with all"
        " others that use the same database. Needs a Postgres database and `palimpsest[cluster]`.",
    )
    temporal_namespace: str = Field("default", description="The namespace in Temporal.")
    temporal_tls: bool = Field(False, description="Whether Temporal is reached through TLS.")
    temporal_api_key: SecretStr | None = Field(None, description="API key for Temporal; implies TLS.")
    role: Literal["all", "api", "worker"] = Field(
        "all",
        description="What a node of a cluster does: `api` serves requests and runs no sessions, `worker` runs sessions"
        " and serves only health, metrics, and its sessions' files to other nodes.",
    )
    node_address: str | None = Field(
        None,
        description="`host:port` at which the other nodes of a cluster reach this one. If it listens on all addresses,"
        " the default is its address on the route to Temporal, else the one that it listens on.",
    )
    drain_s: float = Field(
        60,
        ge=0,
        description="Seconds that a cluster node gives current steps to finish at shutdown, before it interrupts"
        " them; other nodes then continue their sessions.",
    )
    api_keys: Keys = Field(
        (), description="API keys, separated by commas; without one the server listens on loopback only."
    )
    secret_key: SecretStr | None = Field(
        None,
        min_length=32,
        description="Encrypts the secrets of sessions: random text, such as `openssl rand -base64 32` prints; the same"
        " on all nodes of a cluster. By default `secret.key` in the data directory, created when first needed.",
    )
    login_days: float = Field(
        30, gt=0, le=400, description="Days until a login in the page expires. Browsers keep it for 400 at most."
    )
    allowed_hosts: Names = Field(
        (),
        description="Host names, in addition to loopback, that requests may use for the server, separated by commas;"
        " pages served under them may call it too.",
    )

    model: str | None = Field(
        None, description="Default model as `provider/model`; if unset, the first provider with a key, else the demo."
    )
    models: dict[str, ModelSettings] = Field(
        {},
        description="JSON: model name to `{context_window?, max_output_tokens?, reasoning_efforts?, sees_images?,"
        " prices?}`; overrides the catalog.",
    )
    providers: dict[str, ProviderSettings] = Field(
        {},
        description="JSON: provider name to `{kind, base_url, api_key_env?}`, where `kind` is `openai-responses`,"
        " `openai` (Chat Completions) or `anthropic`; a provider with its own base URL needs no key.",
    )
    openai_api_key: SecretStr | None = Field(
        None, validation_alias=AliasChoices("OPENAI_API_KEY"), description="Key of the provider `openai`."
    )
    openai_base_url: str | None = Field(
        None,
        validation_alias=AliasChoices("OPENAI_BASE_URL"),
        description="Base URL of `openai`, ending in `/v1`; any other than OpenAI's is called with Chat Completions.",
    )
    anthropic_api_key: SecretStr | None = Field(
        None, validation_alias=AliasChoices("ANTHROPIC_API_KEY"), description="Key of the provider `anthropic`."
    )
    anthropic_base_url: str | None = Field(
        None,
        validation_alias=AliasChoices("ANTHROPIC_BASE_URL"),
        description="Base URL of `anthropic`, with or without `/v1`.",
    )
    provider_idle_timeout_s: float = Field(
        120, gt=0, description="Seconds without a byte from a provider after which a call fails."
    )
    provider_max_attempts: int = Field(
        30,
        ge=1,
        le=100,
        description="Maximum model calls per step, including the first, while a provider is away; the waits between 30"
        " take 6 to 12 minutes. A stream that is cut off is requested again at most 4 times.",
    )

    compaction: NameOrJson = Field("reactive", description="Default compaction: JSON or a policy's name.")

    sandbox: Literal["auto", SandboxKind] = Field(
        "auto",
        description="Where commands run: `auto` takes Docker if an Engine answers, else bubblewrap. `local-unsafe` runs"
        " them as the server's own user, without any isolation.",
    )
    sandbox_image: str = Field(
        "python:3.12-bookworm",
        description="Image of Docker sandboxes, pulled if absent; the project's own is in `docker/`.",
    )
    sandbox_network: SandboxNetwork | None = Field(
        None,
        description="Whether commands can reach the network, or the hosts that they can reach, separated by commas; if"
        " unset, on in Docker and off in bubblewrap, where on means the host's own network and therefore needs"
        " `api_keys`. A session may only request less.",
    )
    sandbox_memory_mb: int = Field(2048, ge=64, description="Memory of one sandbox in MiB.")
    sandbox_cpus: float = Field(
        2.0,
        ge=MIN_CPUS,
        description="CPU cores of one sandbox. In bubblewrap this has no effect unless the server may create"
        " cgroups with the `cpu` controller: without them commands may use all cores, at a lower priority than the"
        " server. `palimpsest doctor` shows whether it can.",
    )
    sandbox_pids: int = Field(512, ge=16, description="Processes and threads of one sandbox.")
    sandbox_disk_mb: int = Field(
        10_240,
        ge=16,
        description="Disk space of one sandbox in MiB: workspace, home directory and, with bubblewrap, `/tmp`. Each"
        " file name counts for at least 4 KiB.",
    )
    sandbox_idle_s: float = Field(900, gt=0, description="Seconds of idleness after which a sandbox is stopped.")
    sandbox_wait_s: float = Field(
        60, ge=0, description="Seconds a tool call waits for a sandbox if all are in use or the Engine does not answer."
    )
    git_networks: Networks = Field(
        (),
        description="Networks such as `10.1.0.0/16`, separated by commas, from which sessions may clone repositories,"
        " in addition to public addresses.",
    )
    git_known_hosts: AbsolutePath | None = Field(
        None,
        description="File with the keys of SSH hosts from which sessions may clone repositories, in the format of"
        " `known_hosts`; if unset, `/etc/ssh/ssh_known_hosts`.",
    )
    max_sandboxes: int = Field(
        100,
        ge=1,
        description="Sandboxes that run at the same time; idle ones are stopped to free a slot, otherwise calls wait.",
    )
    workspace_store: str | None = Field(
        None,
        description="Where workspaces are stored so that another machine can continue a session:"
        " `s3://bucket/prefix?endpoint=URL&region=NAME`, with credentials from the usual `AWS_` variables, or a folder"
        " that all machines share, `file:///folder`. Needs `palimpsest[cluster]`; if unset, a workspace stays on its"
        " machine.",
    )
    docker_host: str | None = Field(
        None,
        validation_alias=AliasChoices("DOCKER_HOST"),
        description="The Engine's address, as for Docker's own tools.",
    )

    command_timeout_s: float = Field(60, gt=0, description="Default timeout of a command, in seconds.")
    command_timeout_max_s: float = Field(3600, gt=0, description="Maximum timeout a command may request, in seconds.")
    tool_output_chars: int = Field(
        30_000, ge=1000, description="Characters of a tool's output that the model sees: head and tail together."
    )
    tool_output_max_bytes: int = Field(
        256 * 1024 * 1024, ge=1024, description="Bytes stored of one call's raw output; the rest is only counted."
    )
    session_output_max_bytes: int = Field(
        1024 * 1024 * 1024,
        ge=1024,
        description="Bytes stored of all raw outputs of a session. Beyond that, the oldest are removed; what the model"
        " was shown of them stays. It also limits a single call's output; outputs of running calls are not counted.",
    )

    approval: NameOrJson = Field(
        "never",
        description="JSON, as in a request, or a policy's name, `never` or `always`: which calls wait for approval."
        " A session may only be stricter. Applies to sessions created, or given another policy, from then on.",
    )
    max_steps: Annotated[int | None, BeforeValidator(_no_limit)] = Field(
        50, ge=1, description="Default step limit per run, or `none`. `palimpsest run` without a server has none."
    )
    session_limits: LimitSettings = Field(
        LimitSettings(),
        description="JSON: the highest limits a session may request, `{max_steps?, max_seconds?, max_cost_usd?,"
        " max_tokens?}`; omitted ones are unlimited.",
    )
    max_runs: int = Field(100, ge=1, description="Runs active at the same time; others wait in order.")
    max_waiting_runs: int = Field(
        1000, ge=0, description="Runs that may wait for a slot; requests for further ones are answered with 429."
    )
    max_runs_per_key: int | None = Field(
        None,
        ge=1,
        description="Runs that requests with one API key may have active or waiting at the same time, on all nodes of a"
        " cluster together; requests for further ones are answered with 429. If unset, unlimited.",
    )
    max_readers: int = Field(
        1000,
        ge=1,
        description="Event streams open at the same time; further ones are answered with 503. If not set explicitly,"
        " lowered to what the limit of open files allows.",
    )
    max_background_summaries: int = Field(
        8,
        ge=0,
        description="Summaries prepared in the background at the same time; if no slot is free, a session waits for its"
        " summary when it is due.",
    )
    recover: Literal["resume", "park"] = Field(
        "resume",
        description="What to do at startup with runs that were active when the server went down: `resume` continues"
        " them, `park` ends them as interrupted, each to be resumed by a request. A run that waits for approval or a"
        " client keeps waiting. Has no effect in a cluster, where other nodes continue them.",
    )
    retain_outputs_days: float | None = Field(
        None,
        gt=0,
        description="Days to keep a raw output after its call; what the model was shown of it stays. If unset, as long"
        " as its session.",
    )
    checkpoints: int = Field(
        100,
        ge=2,
        description="Maximum checkpoints of a session's workspace; the first is kept, then the newest. Kept on this"
        " machine, in `checkpoints/` of the data directory.",
    )
    checkpoint_max_mb: int = Field(
        1024,
        ge=1,
        description="Largest workspace in MiB, not counting ignored files, that checkpoints are taken of; a session"
        " whose checkpoints take more on disk keeps only 10 of them.",
    )
    checkpoint_file_max_mb: int = Field(
        10, ge=1, le=100, description="Size in MiB of the largest file that checkpoints cover."
    )
    checkpoint_skip: Names = Field(
        CACHE_DIRECTORIES,
        description="Names of directories, separated by commas, that checkpoints do not cover because their contents"
        " can be regenerated.",
    )
    retain_sessions_days: float | None = Field(
        None,
        gt=0,
        description="Days to keep an idle session, with its files, after its last activity. If unset, until it is"
        " deleted.",
    )
    last_step_s: float = Field(
        60,
        ge=0,
        description="Seconds for the closing step, in which the model sums up before a limit ends its run; 0 disables"
        " it.",
    )
    loop_guard_tell: int = Field(
        3,
        ge=0,
        le=100,
        description="How many times in a row the same calls may have the same results before the model is warned; 0"
        " disables the check.",
    )
    loop_guard_end: int = Field(
        3, ge=0, le=100, description="How many further times end the run with `loop_guard`; 0 never ends it."
    )
    webhook_networks: Networks = Field(
        (),
        description="Networks, separated by commas, that webhooks may be sent to although their addresses are private,"
        " loopback or link-local, such as `10.1.0.0/16,fd00::/8`. Anyone with an API key can then have the server call"
        " them.",
    )
    mcp_servers: dict[str, Any] = Field(
        {},
        description="JSON: MCP servers of every session, by name, each `{url, headers?}` or `{command, args?, env?}`,"
        " with `tools?` and `approval?`; a value may be `{secret, prefix?}`, a secret of the session. Their URLs may"
        " have any address.",
    )
    mcp_networks: Networks = Field(
        (),
        description="Networks, separated by commas, whose addresses the URLs of sessions' MCP servers may have even if"
        " they are private, loopback or link-local. Anyone with an API key can then have the server call them. Without"
        " an API key, loopback addresses are allowed anyway: callers are on this machine.",
    )
    mcp_call_s: float = Field(300, gt=0, description="Seconds that a call of an MCP server's tool may take.")
    queue_limit: int = Field(100, ge=1, description="Maximum messages in one session's queue.")
    upload_max_bytes: int = Field(64 * 1024 * 1024, ge=1, description="Maximum size of an uploaded file, in bytes.")
    archive_max_bytes: int = Field(
        1024 * 1024 * 1024,
        ge=1,
        description="Maximum size of an uploaded archive and of what it unpacks to, in bytes. Until it is unpacked, it"
        " is in the folder for temporary files (`TMPDIR`).",
    )
    system_prompt_file: AbsolutePath | None = Field(
        None, description="A UTF-8 file that replaces the built-in instructions of the system prompt."
    )
    summary_template_file: AbsolutePath | None = Field(
        None,
        description="A UTF-8 file of at most 8 KiB with the sections of summaries; replaces the built-in ones of all"
        " policies and profiles.",
    )
    skills_dir: AbsolutePath | None = Field(
        None, description="A folder of skills for all sessions, each as `NAME/SKILL.md`; read at startup."
    )
    shutdown_grace_s: float = Field(10, ge=0, description="Seconds that runs and readers have to end at shutdown.")
    otlp_endpoint: str | None = Field(
        None,
        validation_alias=AliasChoices("OTEL_EXPORTER_OTLP_ENDPOINT"),
        description="Base URL of an OpenTelemetry receiver that gets traces over HTTP; needs `palimpsest[otel]`.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Lowest level to log.")
    log_format: Literal["auto", "console", "json"] = Field(
        "auto", description="`auto` is `console` on a terminal and `json` elsewhere."
    )

    @model_validator(mode="after")
    def _without_a_sandbox_no_hosts_are_kept(self) -> Self:
        if self.sandbox == "local-unsafe" and isinstance(self.sandbox_network, AllowedHosts):
            raise ValueError("sandbox_network: local-unsafe cannot limit commands to a list of hosts")
        return self

    @classmethod
    def variables(cls) -> frozenset[str]:
        """All variables with the prefix that are read. A field with an alias has one too: `PALIMPSEST_OPENAI_API_KEY`
        works like `OPENAI_API_KEY`."""
        return frozenset(f"{cls.model_config['env_prefix']}{name}".upper() for name in cls.model_fields)

    @property
    def url(self) -> str:
        """The database's SQLAlchemy URL."""
        return self.database_url or f"sqlite+aiosqlite:///{self.data_dir / 'palimpsest.db'}"
