"""MCP servers of sessions

Revision: 0024
After: 0023
"""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    comment = "MCP servers by name, in addition to the operator's; null for a name leaves one of those out."
    op.add_column("sessions", sa.Column("mcp_servers", sa.Text(), comment=comment))
    op.create_table(
        "mcp_catalogs",
        sa.Column("session_id", sa.String(36), nullable=False),
        sa.Column("server", sa.String(32), nullable=False, comment="Its name."),
        sa.Column("protocol", sa.String(20), comment="The negotiated version; null: never connected."),
        sa.Column("catalog", sa.Text(), comment="Its tools, as they can be offered, and which cannot."),
        sa.Column("code", sa.String(60), comment="Why it cannot be used; null: it can."),
        sa.Column("detail", sa.Text()),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_mcp_catalogs_sessions", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("session_id", "server", name="pk_mcp_catalogs"),
    )


def downgrade() -> None:
    op.drop_table("mcp_catalogs")
    with op.batch_alter_table("sessions") as batch:
        batch.drop_column("mcp_servers")
