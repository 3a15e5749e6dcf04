"""idempotent requests

Revision: 0034
After: 0033
"""

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "idempotent_requests",
        sa.Column(
            "key_digest", sa.String(64), primary_key=True, comment="Of the caller, the path and the Idempotency-Key."
        ),
        sa.Column("holder", sa.String(36), nullable=False, comment="The server that answers it."),
        sa.Column("made_id", sa.String(36), nullable=False, comment="The id of what it makes."),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("body_digest", sa.String(64), comment="Of the request's body."),
        sa.Column("session_id", sa.String(36), sa.ForeignKey("sessions.id", ondelete="CASCADE")),
        sa.Column("status", sa.Integer(), comment="Null until it is answered."),
        sa.Column("headers", sa.Text()),
        sa.Column("body", sa.LargeBinary()),
        comment="POSTs with an Idempotency-Key and their answers, for a day.",
    )
    op.create_index("ix_idempotent_requests_created_at", "idempotent_requests", ["created_at"])
    op.create_index("ix_idempotent_requests_session_id", "idempotent_requests", ["session_id"])


def downgrade() -> None:
    op.drop_table("idempotent_requests")
