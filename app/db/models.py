"""All tables; those of sessions are defined here. Rows are read and written through SQLAlchemy Core by the
repositories; Alembic compares `metadata` with the database.

Times are integers, milliseconds since 1970 in UTC. JSON is text written by orjson. A session's rows carry its id, so
that ids chosen by clients need to be unique within a session only.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    text,
)

from app.db.columns import Json, UtcTime, only_where, session_id
from app.db.columns import metadata as metadata
from app.db.command_models import background_commands as background_commands
from app.db.dialects import JsonText
from app.db.server_models import daily_usage as daily_usage
from app.db.server_models import deletions as deletions
from app.db.server_models import idempotent_requests as idempotent_requests
from app.db.server_models import logins as logins
from app.db.server_models import model_calibrations as model_calibrations
from app.db.server_models import model_quirks as model_quirks
from app.db.server_models import model_windows as model_windows
from app.db.server_models import nodes as nodes
from app.db.server_models import server as server
from app.db.webhook_models import webhook_cursors as webhook_cursors
from app.db.webhook_models import webhook_deliveries as webhook_deliveries
from app.db.webhook_models import webhook_requests as webhook_requests
from app.db.webhook_models import webhooks as webhooks

sessions = Table(
    "sessions",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("title", Text),
    Column("task", Text),
    Column("task_parts", Json, comment="The task's parts if it is not only a text; `task` then has their text form."),
    Column("status", String(20), nullable=False),
    Column("outcome", String(20)),
    Column("error", Json),
    Column("unseen", Boolean, comment="Whether its last run has ended since a client showed it; null: no."),
    Column("answer", Text, comment="Text of the last run's final message; null: it did not complete."),
    Column("output", Json, comment="What the last run has submitted, as it had to meet a schema."),
    Column("output_format", Json, comment="Schema, name and description of what runs submit; null: a text."),
    Column("run_output_format", Json, comment="The same, from a message of the current run."),
    Column("model", Text, nullable=False),
    Column("reasoning_effort", String(10), comment="Null: the model's default."),
    Column("system_prompt", Text),
    Column("tools", Json, comment="Names of the tools offered; null: all of them."),
    Column("has_commands", Boolean, comment="Whether a command was started in the background; null: no."),
    Column("client_tools", Text, comment="JSON of the tools that a client carries out; null: none."),
    Column(
        "mcp_servers",
        Json,
        comment="MCP servers by name, in addition to the operator's; null for a name leaves one of those out.",
    ),
    Column("sandbox", Json, nullable=False),
    Column("compaction", Json, nullable=False, comment="Policy and settings, complete."),
    Column("compaction_count", Integer, nullable=False, default=0),
    Column("compaction_last_at", UtcTime),
    Column("compaction_in_progress", Boolean, nullable=False, default=False),
    Column("limits", Json, nullable=False),
    Column("approval", Json, nullable=False),
    Column("metadata", Json, nullable=False),
    Column("plan", Json, nullable=False),
    Column("kind", String(20), nullable=False, server_default="session", comment="session or subagent."),
    Column("parent_id", String(36)),
    Column("usage", Json, nullable=False),
    Column("context", Json, nullable=False),
    Column("steps", Integer, nullable=False, default=0),
    Column("last_seq", Integer, nullable=False, default=0, comment="Seq of the newest event; the next one adds 1."),
    Column("epoch", Integer, nullable=False, default=0, comment="Raised by each new owner; fences off stale ones."),
    Column("owner", String(36), comment="The node of a cluster that owns it; null: none, or a server without one."),
    Column("nudges", Integer, nullable=False, server_default="0", comment="Changes by others than its owner."),
    Column("barred_by", String(36), comment="The operation that keeps new owners out, such as a deletion."),
    Column("barred_at", UtcTime),
    Column("generation", Integer, nullable=False, default=0, comment="Number of the newest context generation."),
    Column("queue_held", Boolean, nullable=False, default=False, comment="Set by a cancel: pending messages wait."),
    Column("cancel_requested", Boolean, nullable=False, default=False),
    Column("recoveries", Integer, nullable=False, default=0, comment="Since the last completed step."),
    Column("run_trigger", String(20), comment="What started the run: message, resume or recovery."),
    Column("run_key", String(32), comment="Id of the API key whose request started the run; null: no key."),
    Column("run_traceparent", String(55), comment="The trace of the current or last run, as W3C names it."),
    Column("run_started_at", UtcTime),
    Column("run_steps", Integer, nullable=False, default=0),
    Column("run_usage", Json, nullable=False),
    Column("fingerprint", String(64), nullable=False, comment="Hash of the request that created it."),
    Column("created_at", UtcTime, nullable=False),
    Column("updated_at", UtcTime, nullable=False),
    # As text, since a row is read far more often than its notes are.
    Column(
        "source",
        Json,
        comment="What its files come from: `git` as in the request, `archive` if one came with it; null: nothing.",
    ),
    Column("source_commit", String(64), comment="The commit that was cloned; null: not yet."),
    Column("notes", Text, comment="JSON of AGENTS.md and MEMORY.md as in the context; null: none."),
)
Index("ix_sessions_created_at_id", sessions.c.created_at, sessions.c.id)
Index("ix_sessions_status", sessions.c.status)
Index("ix_sessions_run_key", sessions.c.run_key, **only_where(text("status != 'idle'")))
Index("ix_sessions_parent_id", sessions.c.parent_id, **only_where(text("parent_id IS NOT NULL")))
Index("ix_sessions_owner", sessions.c.owner, **only_where(text("owner IS NOT NULL")))

queue = Table(
    "queue",
    metadata,
    session_id(),
    Column("id", String(36), primary_key=True, comment="Becomes the message's id."),
    Column("ordinal", Integer, nullable=False, comment="Seq of its message.queued event: the order of acceptance."),
    Column("mode", String(20), nullable=False),
    Column("content", Text, nullable=False),
    Column("parts", Json, comment="The parts if it is not only a text; `content` then has their text form."),
    Column("image_bytes", Integer, nullable=False, server_default="0", comment="Of all its images."),
    Column("status", String(20), nullable=False),
    Column("output_format", Json, comment="What the run that takes it has to submit; null: as the session says."),
    Column("fingerprint", String(64), nullable=False, comment="Hash of the content first posted."),
    Column("traceparent", String(55), comment="The trace of the request that posted it."),
    Column("created_at", UtcTime, nullable=False),
)
Index("ix_queue_session_id_status_ordinal", queue.c.session_id, queue.c.status, queue.c.ordinal)

events = Table(
    "events",
    metadata,
    session_id(),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("type", String(40), nullable=False),
    Column("data", JsonText, nullable=False),
    Column("traceparent", String(55), comment="The trace of the run or request that it belongs to."),
    sqlite_with_rowid=False,
)

messages = Table(
    "messages",
    metadata,
    session_id(),
    Column("id", String(36), primary_key=True),
    Column("seq", Integer, nullable=False, comment="Seq of the event that added it."),
    Column("role", String(20), nullable=False),
    Column("model", Text),
    Column("finish_reason", String(20)),
    Column("error", Json),
    Column("is_summary", Boolean, nullable=False, default=False),
    Column("round", Integer),
    Column("tokens", Integer, nullable=False, default=0),
    Column("voided_at", UtcTime),
    Column("created_at", UtcTime, nullable=False),
)
Index("ix_messages_session_id_seq", messages.c.session_id, messages.c.seq, unique=True)
Index("ix_messages_role", messages.c.session_id, messages.c.role, messages.c.model, messages.c.seq)

message_parts = Table(
    "message_parts",
    metadata,
    session_id(),
    Column("id", String(36), primary_key=True),
    Column("message_id", String(36), nullable=False),
    Column("index", Integer, nullable=False),
    Column("type", String(20), nullable=False),
    Column("call_id", String(36)),
    Column("status", String(20)),
    Column("closed", Boolean, nullable=False, comment="False while the model is still writing it."),
    Column("tokens", Integer, nullable=False, default=0),
    Column("body", Json, nullable=False, comment="The part's other fields."),
    Column("output_ref", Text, comment="Where the raw output is stored, if not whole in the body."),
    Column("compacted_at", UtcTime, comment="When its output was cleared from the context."),
    Column("output_swept_at", UtcTime, comment="When its raw output was removed."),
)
Index("ix_message_parts_message", message_parts.c.session_id, message_parts.c.message_id, message_parts.c.index)
Index("ix_message_parts_call", message_parts.c.session_id, message_parts.c.call_id)
Index(
    "ix_message_parts_open",
    message_parts.c.session_id,
    message_parts.c.message_id,
    message_parts.c.index,
    **only_where(message_parts.c.closed.is_(False)),
)
Index(
    "ix_message_parts_open_call",
    message_parts.c.session_id,
    **only_where(text("status IN ('pending', 'running')")),
)
Index(
    "ix_message_parts_output",
    message_parts.c.session_id,
    message_parts.c.message_id,
    **only_where(message_parts.c.output_ref.is_not(None) & message_parts.c.output_swept_at.is_(None)),
)

IN_MESSAGE = (messages.c.session_id == message_parts.c.session_id) & (messages.c.id == message_parts.c.message_id)
"""Joins parts to their messages."""

images = Table(
    "images",
    metadata,
    session_id(),
    Column("digest", String(64), primary_key=True, comment="SHA-256 of the data."),
    Column("media_type", String(20), nullable=False),
    Column("data", LargeBinary, nullable=False),
    comment="The images of messages, whose parts name them by their digests.",
)

secrets = Table(
    "secrets",
    metadata,
    session_id(),
    Column("name", String(100), primary_key=True, comment="The environment variable."),
    Column("value", Text, nullable=False, comment="Encrypted, in base64."),
    Column("created_at", UtcTime, nullable=False),
    Column("updated_at", UtcTime, nullable=False),
)

mcp_catalogs = Table(
    "mcp_catalogs",
    metadata,
    session_id(),
    Column("server", String(32), primary_key=True, comment="Its name."),
    Column("protocol", String(20), comment="The negotiated version; null: never connected."),
    Column("catalog", Json, comment="Its tools, as they can be offered, and which cannot."),
    Column("code", String(60), comment="Why it cannot be used; null: it can."),
    Column("detail", Text),
)

search_entries = Table(
    "search_entries",
    metadata,
    Column("id", Integer, primary_key=True, comment="The rowid of its text in search_text."),
    Column("session_id", String(36), ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False),
    Column("seq", Integer, nullable=False, comment="Seq of its message."),
    Column("message_id", String(36), nullable=False),
    Column("role", String(20), nullable=False),
    Column("call_id", String(36)),
    Column(
        "passages_done",
        Integer,
        comment="Set for the last passage of a write that ended inside a message: how many of its passages are stored.",
    ),
    comment="The searchable texts of the history; a message is added when a search first needs it.",
)
Index("ix_search_entries_session_id_seq", search_entries.c.session_id, search_entries.c.seq)


def is_managed(name: str | None, kind: str, _parents: object) -> bool:
    """Whether migrations compare a database object with these tables; `app/db/fulltext.py` has the others."""
    return not (kind == "table" and name is not None and name.startswith("search_text"))


steps = Table(
    "steps",
    metadata,
    session_id(),
    Column("step", Integer, primary_key=True, autoincrement=False),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("message_id", String(36), nullable=False),
    Column("generation", Integer, nullable=False),
    Column("opened_seq", Integer, nullable=False, comment="Seq of step.started: everything before it was sent."),
    Column("model", Text, nullable=False),
    Column("finish_reason", String(20)),
    Column("usage", Json, nullable=False),
    Column("context", Json, nullable=False),
    Column("compaction_round", Integer, nullable=False, default=0),
    Column("started_at", UtcTime, nullable=False),
    Column("answered_at", UtcTime, comment="When the model's answer had ended; its calls run from then on."),
    Column("duration_ms", Integer),
)

approvals = Table(
    "approvals",
    metadata,
    session_id(),
    Column("call_id", String(36), primary_key=True),
    Column("message_id", String(36), nullable=False, comment="The message that made the call."),
    Column("expires_at", UtcTime, comment="Null: waits without a timeout."),
    Column("decision", String(20), comment="Null while the call waits."),
    Column("decided_by", String(20)),
    Column("reason", Text, comment="Shown to the model with a denial."),
    Column("requested_at", UtcTime, nullable=False),
    Column("decided_at", UtcTime),
)

client_calls = Table(
    "client_calls",
    metadata,
    session_id(),
    Column("call_id", String(36), primary_key=True),
    Column("message_id", String(36), nullable=False, comment="The message that made the call."),
    Column("requested_at", UtcTime, nullable=False),
    Column("expires_at", UtcTime, comment="Null: waits without a timeout."),
    Column("ended_by", String(20), comment="Null while the call waits."),
    Column("ended_at", UtcTime),
    Column("output", Text, comment="What the client has posted, until it is in the call's result."),
    Column("is_error", Boolean, nullable=False, default=False),
    Column("child_id", String(36), comment="The sub-agent that carries it out; null: a client does."),
    comment="Calls that wait, or waited, for their result from a client.",
)

generations = Table(
    "generations",
    metadata,
    session_id(),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("id", String(36), nullable=False),
    Column("reason", String(20), nullable=False),
    Column("model", Text, nullable=False),
    Column("system", Text, nullable=False),
    Column("tools", Json, nullable=False),
    Column("first_seq", Integer, nullable=False),
    Column("rounds", Json, comment="The rounds of compaction in force."),
    Column("pruned", Json, comment="Calls whose outputs are cleared from this generation on."),
    Column("restored", Json, comment="Calls whose outputs are shown again from this generation on."),
    Column("repairs", Json, comment="Repairs first made in this generation."),
    Column("echo_reasoning", Boolean, comment="Whether plain reasoning is sent back to the model that wrote it."),
    Column("sees_images", Boolean, comment="Whether images are sent; null: yes."),
    Column("drop_block", Boolean, comment="Whether the provider is asked to drop thinking that it cannot verify."),
    Column("created_at", UtcTime, nullable=False),
)

compaction_events = Table(
    "compaction_events",
    metadata,
    session_id(),
    Column("round", Integer, primary_key=True),
    Column("reason", String(20), nullable=False),
    Column("policy", String(20), nullable=False),
    Column("status", String(20), nullable=False),
    Column("rung", String(20)),
    Column("first_message_id", String(36)),
    Column("last_message_id", String(36)),
    Column("messages_compacted", Integer, nullable=False, default=0),
    Column("outputs_pruned", Integer, nullable=False, default=0),
    Column("tokens_before", Integer, nullable=False, default=0),
    Column("tokens_after", Integer, nullable=False, default=0),
    Column("summary", Text, comment="The prose, as the model or the fold wrote it."),
    Column("error", Json, comment="Of a failed round: code and detail of the error."),
    Column("usage", Json),
    Column("duration_ms", Integer),
    Column("background", Boolean, nullable=False, default=False, comment="Prepared while the agent kept working."),
    Column("instructions", Text, comment="Of a manual round: what to keep, in the user's words."),
    Column("settings", Json, comment="Of a manual round: its settings."),
    Column("checkpoint", Json, comment="Of a completed round: what it covers, keeps and clips."),
    Column("pruned", Json, comment="The calls whose outputs were cleared with it."),
    Column("created_at", UtcTime, nullable=False),
)

workspaces = Table(
    "workspaces",
    metadata,
    session_id(),
    Column("machine", String(64), nullable=False, comment="The machine that has the workspace; empty: none."),
    Column("tenure", Integer, nullable=False, comment="Raised by each holder; fences off snapshots of earlier ones."),
    Column("snapshot_id", String(64), comment="The newest snapshot; null: the workspace was empty."),
    Column("as_of", UtcTime, nullable=False, comment="When the workspace was as in the snapshot."),
    Column("restored_as_of", UtcTime, comment="That of a restored snapshot, until the session's log says so."),
    comment="Where the workspaces are, if they are stored for other machines.",
)

checkpoints = Table(
    "checkpoints",
    metadata,
    session_id(),
    Column("id", String(36), primary_key=True),
    Column("at", UtcTime, nullable=False),
    Column("run", Integer, nullable=False, comment="The session's first run is 1."),
    Column("reason", String(20), nullable=False, comment="run_started, run_ended or before_restore."),
    Column("message_id", String(36), comment="The last message of the history then."),
    Column("files", Integer, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("commit_id", String(64), comment="In the session's repository; null: the workspace was empty."),
    Column("tree_id", String(64), nullable=False, comment="The tree of its files."),
    comment="Checkpoints of workspaces, whose content is in a git repository per session.",
)

checkpoint_repositories = Table(
    "checkpoint_repositories",
    metadata,
    session_id(),
    Column("version", Integer, nullable=False, comment="Raised by each new snapshot of the repository."),
    Column("snapshot_id", String(64), comment="The newest snapshot; null: the repository is empty."),
    Column("uses", Integer, nullable=False, comment="How often the workspace was opened for changes."),
    Column("seen_uses", Integer, comment="`uses` at the newest look; null: it may not have seen all."),
    Column("restoring", String(36), comment="The checkpoint whose restoration is not completed."),
    comment="The repositories with checkpoints that nodes share.",
)
