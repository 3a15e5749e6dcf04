"""webhooks, their cursors and their deliveries

Revision: 0018
After: 0017
"""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "webhooks",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("events", sa.Text(), comment="Names of events and prefixes ending in .*; null: all events."),
        sa.Column("session_id", sa.String(36), comment="The only session whose events it gets; null: all."),
        sa.Column("metadata", sa.Text(), nullable=False),
        sa.Column("secret", sa.Text(), nullable=False, comment="As `runtime/webhooks/signing.py` stores it."),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("disabled_at", sa.BigInteger()),
        sa.Column("disabled_reason", sa.Text()),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("lease_node", sa.String(36), comment="The node of a cluster that delivers to it."),
        sa.Column("lease_until", sa.BigInteger(), comment="By the database's clock."),
        comment="Receivers of events.",
    )
    op.create_index("ix_webhooks_session_id", "webhooks", ["session_id"])
    _cursors()
    _deliveries()


def _cursors() -> None:
    op.create_table(
        "webhook_cursors",
        sa.Column("session_id", sa.String(36), nullable=False),
        sa.Column("webhook_id", sa.String(36), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name=op.f("fk_webhook_cursors_sessions"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["webhook_id"], ["webhooks.id"], name=op.f("fk_webhook_cursors_webhooks"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("session_id", "webhook_id", name=op.f("pk_webhook_cursors")),
        comment="Up to which event of a session a webhook has got all that it should.",
    )
    op.create_index("ix_webhook_cursors_webhook_id", "webhook_cursors", ["webhook_id"])


def _deliveries() -> None:
    table = "webhook_deliveries"
    op.create_table(
        table,
        sa.Column("id", sa.String(36), primary_key=True, comment="Its webhook-id."),
        sa.Column("webhook_id", sa.String(36), nullable=False),
        sa.Column("session_id", sa.String(36), comment="Null for a test."),
        sa.Column("seq", sa.Integer(), comment="Null for a test."),
        sa.Column("type", sa.String(40), nullable=False),
        sa.Column("data", sa.Text(), comment="Of an event that is in no log: its JSON."),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("once", sa.Boolean(), nullable=False, comment="Attempted once, outside of its session's order."),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("response_status", sa.Integer()),
        sa.Column("error", sa.Text()),
        sa.Column("duration_ms", sa.Integer()),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("attempted_at", sa.BigInteger()),
        sa.Column("next_attempt_at", sa.BigInteger(), comment="Null unless pending."),
        sa.Column("expires_at", sa.BigInteger(), comment="When it fails for good."),
        sa.ForeignKeyConstraint(
            ["webhook_id"], ["webhooks.id"], name=op.f("fk_webhook_deliveries_webhooks"), ondelete="CASCADE"
        ),
        comment="What was sent to webhooks, and what waits to be sent again.",
    )
    op.create_index(
        "ix_webhook_deliveries_webhook_id_created_at_id",
        table,
        ["webhook_id", "created_at", "id"],
    )
    op.create_index("ix_webhook_deliveries_session_id", table, ["session_id"])
    pending = sa.text("status = 'pending'")
    op.create_index(
        "ix_webhook_deliveries_pending",
        table,
        ["webhook_id", "session_id"],
        sqlite_where=pending,
        postgresql_where=pending,
    )


def downgrade() -> None:
    op.drop_table("webhook_deliveries")
    op.drop_table("webhook_cursors")
    op.drop_table("webhooks")
