"""secrets of sessions

Revision: 0021
After: 0020
"""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "secrets",
        sa.Column("session_id", sa.String(36), nullable=False),
        sa.Column("name", sa.String(100), nullable=False, comment="The environment variable."),
        sa.Column("value", sa.Text(), nullable=False, comment="Encrypted, in base64."),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_secrets_sessions", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("session_id", "name", name="pk_secrets"),
    )


def downgrade() -> None:
    op.drop_table("secrets")
