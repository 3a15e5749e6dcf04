"""first tables

Revision: 0001
After:
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "daily_usage",
        sa.Column("day", sa.String(length=10), nullable=False),
        sa.Column("model", sa.String(length=200), nullable=False),
        sa.Column("steps", sa.Integer(), nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cache_read_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cache_write_tokens", sa.BigInteger(), nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), nullable=False),
        sa.Column("reasoning_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cost_usd", sa.Float(), nullable=False),
        sa.Column("unpriced_steps", sa.Integer(), nullable=False, comment="Steps whose price is unknown."),
        sa.PrimaryKeyConstraint("day", "model", name=op.f("pk_daily_usage")),
    )
    op.create_table(
        "server",
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_server")),
        comment="Facts about this database, such as the instance id that labels its containers.",
    )
    op.create_table(
        "sessions",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("title", sa.Text(), nullable=True),
        sa.Column("task", sa.Text(), nullable=True),
        sa.Column("status", sa.String(length=20), nullable=False),
        sa.Column("outcome", sa.String(length=20), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("system_prompt", sa.Text(), nullable=True),
        sa.Column("tools", sa.Text(), nullable=True, comment="Names of the tools offered; null: all of them."),
        sa.Column("sandbox", sa.Text(), nullable=False),
        sa.Column("compaction", sa.Text(), nullable=False, comment="Policy and settings, complete."),
        sa.Column("compaction_count", sa.Integer(), nullable=False),
        sa.Column("compaction_last_at", sa.BigInteger(), nullable=True),
        sa.Column("compaction_in_progress", sa.Boolean(), nullable=False),
        sa.Column("limits", sa.Text(), nullable=False),
        sa.Column("approval", sa.Text(), nullable=False),
        sa.Column("metadata", sa.Text(), nullable=False),
        sa.Column("plan", sa.Text(), nullable=False),
        sa.Column("parent_id", sa.String(length=36), nullable=True),
        sa.Column("usage", sa.Text(), nullable=False),
        sa.Column("context", sa.Text(), nullable=False),
        sa.Column("steps", sa.Integer(), nullable=False),
        sa.Column("last_seq", sa.Integer(), nullable=False, comment="Seq of the newest event; the next one adds 1."),
        sa.Column("epoch", sa.Integer(), nullable=False, comment="Raised by each new owner; fences off stale ones."),
        sa.Column("generation", sa.Integer(), nullable=False, comment="Number of the newest context generation."),
        sa.Column("queue_held", sa.Boolean(), nullable=False, comment="Set by a cancel: pending messages wait."),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
        sa.Column("recoveries", sa.Integer(), nullable=False, comment="Since the last completed step."),
        sa.Column(
            "run_trigger",
            sa.String(length=20),
            nullable=True,
            comment="What started the run: message, resume or recovery.",
        ),
        sa.Column("run_started_at", sa.BigInteger(), nullable=True),
        sa.Column("run_steps", sa.Integer(), nullable=False),
        sa.Column("run_usage", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False, comment="Hash of the request that created it."),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
    )
    with op.batch_alter_table("sessions", schema=None) as batch_op:
        batch_op.create_index("ix_sessions_created_at_id", ["created_at", "id"], unique=False)
        batch_op.create_index("ix_sessions_status", ["status"], unique=False)

    op.create_table(
        "compaction_events",
        sa.Column("session_id", sa.String(length=36), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("reason", sa.String(length=20), nullable=False),
        sa.Column("policy", sa.String(length=20), nullable=False),
        sa.Column("status", sa.String(length=20), nullable=False),
        sa.Column("rung", sa.String(length=20), nullable=True),
        sa.Column("first_message_id", sa.String(length=36), nullable=True),
        sa.Column("last_message_id", sa.String(length=36), nullable=True),
        sa.Column("messages_compacted", sa.Integer(), nullable=False),
        sa.Column("outputs_pruned", sa.Integer(), nullable=False),
        sa.Column("tokens_before", sa.Integer(), nullable=False),
        sa.Column("tokens_after", sa.Integer(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=True, comment="The prose, as the model or the fold wrote it."),
        sa.Column("usage", sa.Text(), nullable=True),
        sa.Column("duration_ms", sa.Integer(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name=op.f("fk_compaction_events_sessions"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("session_id", "round", name=op.f("pk_compaction_events")),
    )
    op.create_table(
        "events",
        sa.Column("session_id", sa.String(length=36), nullable=False),
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("type", sa.String(length=40), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name=op.f("fk_events_sessions"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("session_id", "seq", name=op.f("pk_events")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "generations",
        sa.Column("session_id", sa.String(length=36), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("reason", sa.String(length=20), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("system", sa.Text(), nullable=False),
        sa.Column("tools", sa.Text(), nullable=False),
        sa.Column("first_seq", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name=op.f("fk_generations_sessions"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("session_id", "number", name=op.f("pk_generations")),
    )
    op.create_table(
        "message_parts",
        sa.Column("session_id", sa.String(length=36), nullable=False),
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("message_id", sa.String(length=36), nullable=False),
        sa.Column("index", sa.Integer(), nullable=False),
        sa.Column("type", sa.String(length=20), nullable=False),
        sa.Column("call_id", sa.String(length=36), nullable=True),
        sa.Column("status", sa.String(length=20), nullable=True),
        sa.Column("closed", sa.Boolean(), nullable=False, comment="False while the model is still writing it."),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False, comment="The part's other fields."),
        sa.Column(
            "output_ref", sa.Text(), nullable=True, comment="Where the raw output is stored, if not whole in the body."
        ),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name=op.f("fk_message_parts_sessions"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("session_id", "id", name=op.f("pk_message_parts")),
    )
    with op.batch_alter_table("message_parts", schema=None) as batch_op:
        batch_op.create_index("ix_message_parts_call", ["session_id", "call_id"], unique=False)
        batch_op.create_index("ix_message_parts_message", ["session_id", "message_id", "index"], unique=False)

    op.create_table(
        "messages",
        sa.Column("session_id", sa.String(length=36), nullable=False),
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False, comment="Seq of the event that added it."),
        sa.Column("role", sa.String(length=20), nullable=False),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("finish_reason", sa.String(length=20), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("is_summary", sa.Boolean(), nullable=False),
        sa.Column("round", sa.Integer(), nullable=True),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("voided_at", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name=op.f("fk_messages_sessions"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("session_id", "id", name=op.f("pk_messages")),
    )
    with op.batch_alter_table("messages", schema=None) as batch_op:
        batch_op.create_index("ix_messages_session_id_seq", ["session_id", "seq"], unique=True)

    op.create_table(
        "queue",
        sa.Column("session_id", sa.String(length=36), nullable=False),
        sa.Column("id", sa.String(length=36), nullable=False, comment="Becomes the message's id."),
        sa.Column(
            "ordinal", sa.Integer(), nullable=False, comment="Seq of its message.queued event: the order of acceptance."
        ),
        sa.Column("mode", sa.String(length=20), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("status", sa.String(length=20), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False, comment="Hash of the content first posted."),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name=op.f("fk_queue_sessions"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("session_id", "id", name=op.f("pk_queue")),
    )
    with op.batch_alter_table("queue", schema=None) as batch_op:
        batch_op.create_index("ix_queue_session_id_status_ordinal", ["session_id", "status", "ordinal"], unique=False)

    op.create_table(
        "steps",
        sa.Column("session_id", sa.String(length=36), nullable=False),
        sa.Column("step", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("message_id", sa.String(length=36), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column(
            "opened_seq", sa.Integer(), nullable=False, comment="Seq of step.started: everything before it was sent."
        ),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("finish_reason", sa.String(length=20), nullable=True),
        sa.Column("usage", sa.Text(), nullable=False),
        sa.Column("context", sa.Text(), nullable=False),
        sa.Column("compaction_round", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("duration_ms", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name=op.f("fk_steps_sessions"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("session_id", "step", "attempt", name=op.f("pk_steps")),
    )


def downgrade() -> None:
    op.drop_table("steps")
    with op.batch_alter_table("queue", schema=None) as batch_op:
        batch_op.drop_index("ix_queue_session_id_status_ordinal")

    op.drop_table("queue")
    with op.batch_alter_table("messages", schema=None) as batch_op:
        batch_op.drop_index("ix_messages_session_id_seq")

    op.drop_table("messages")
    with op.batch_alter_table("message_parts", schema=None) as batch_op:
        batch_op.drop_index("ix_message_parts_message")
        batch_op.drop_index("ix_message_parts_call")

    op.drop_table("message_parts")
    op.drop_table("generations")
    op.drop_table("events")
    op.drop_table("compaction_events")
    with op.batch_alter_table("sessions", schema=None) as batch_op:
        batch_op.drop_index("ix_sessions_status")
        batch_op.drop_index("ix_sessions_created_at_id")

    op.drop_table("sessions")
    op.drop_table("server")
    op.drop_table("daily_usage")
