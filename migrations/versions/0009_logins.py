"""logins of browsers

Revision: 0009
After: 0008
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "logins",
        sa.Column(
            "token_digest",
            sa.String(length=64),
            nullable=False,
            comment="SHA-256 of the token, which itself is not stored.",
        ),
        sa.Column(
            "key_proof",
            sa.String(length=64),
            nullable=False,
            comment="HMAC of the digest with the API key used.",
        ),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("token_digest", name=op.f("pk_logins")),
        comment="Browsers that are logged in and need no key.",
    )
    op.create_index("ix_logins_expires_at", "logins", ["expires_at"])


def downgrade() -> None:
    op.drop_index("ix_logins_expires_at", "logins")
    op.drop_table("logins")
