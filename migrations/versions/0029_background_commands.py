"""background commands

Revision: 0029
After: 0028
"""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "background_commands",
        sa.Column("session_id", sa.String(36), sa.ForeignKey("sessions.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("call_id", sa.String(36), primary_key=True, comment="The call that started it; also its own id."),
        sa.Column("command", sa.Text(), nullable=False),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("exit_code", sa.Integer()),
        sa.Column("remark", sa.Text(), comment="The limit that ended it, or why it could not be started."),
        sa.Column("bytes", sa.BigInteger(), nullable=False, comment="Of its output, once it has ended."),
        sa.Column("output_ref", sa.Text(), comment="Where its raw output is stored."),
        sa.Column("stop_asked", sa.Boolean(), nullable=False, comment="Whether a request asks to stop it."),
        sa.Column("is_told", sa.Boolean(), nullable=False, comment="Whether the model knows that it has ended."),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), comment="Null while it runs."),
        comment="Commands that run, or ran, in the background of a session.",
    )
    started = "Whether a command was started in the background; null: no."
    op.add_column("sessions", sa.Column("has_commands", sa.Boolean(), comment=started))
    op.create_index(
        "ix_background_commands_running",
        "background_commands",
        ["session_id"],
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )


def downgrade() -> None:
    op.drop_table("background_commands")
    op.drop_column("sessions", "has_commands")
