"""repairs made by a generation of the context

Revision: 0004
After: 0003
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("generations", sa.Column("repairs", sa.Text(), comment="Repairs first made in this generation."))


def downgrade() -> None:
    op.drop_column("generations", "repairs")
