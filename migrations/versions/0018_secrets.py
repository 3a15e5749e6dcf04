"""secrets of sessions

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
