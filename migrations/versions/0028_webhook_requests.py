"""requests that made webhooks

Revision: 0028
After: 0027
"""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    webhook = sa.ForeignKey("webhooks.id", ondelete="CASCADE", deferrable=True, initially="DEFERRED")
    op.create_table(
        "webhook_requests",
        sa.Column("key_digest", sa.String(64), primary_key=True, comment="Of the caller and the Idempotency-Key."),
        sa.Column("body_digest", sa.String(64), nullable=False),
        sa.Column("webhook_id", sa.String(36), webhook, nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        comment="Requests that made webhooks, so that one that is repeated makes no second webhook.",
    )
    op.create_index("ix_webhook_requests_webhook_id", "webhook_requests", ["webhook_id"])


def downgrade() -> None:
    op.drop_table("webhook_requests")
