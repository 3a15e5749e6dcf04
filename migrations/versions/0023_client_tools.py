"""tools that clients carry out

Revision: 0023
After: 0022
"""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "sessions",
        sa.Column("client_tools", sa.Text(), comment="JSON of the tools that a client carries out; null: none."),
    )
    op.create_table(
        "client_calls",
        sa.Column("session_id", sa.String(36), sa.ForeignKey("sessions.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("call_id", sa.String(36), primary_key=True),
        sa.Column("message_id", sa.String(36), nullable=False, comment="The message that made the call."),
        sa.Column("requested_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), comment="Null: waits without a timeout."),
        sa.Column("ended_by", sa.String(20), comment="Null while the call waits."),
        sa.Column("ended_at", sa.BigInteger()),
        sa.Column("output", sa.Text(), comment="What the client has posted, until it is in the call's result."),
        sa.Column("is_error", sa.Boolean(), nullable=False),
        comment="Calls that wait, or waited, for their result from a client.",
    )


def downgrade() -> None:
    op.drop_table("client_calls")
    op.drop_column("sessions", "client_tools")
