"""where nodes of a cluster reach each other

Revision: 0016
After: 0015
"""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    comment = "HOST:PORT at which other nodes reach it; null: at none."
    op.add_column("nodes", sa.Column("address", sa.Text(), comment=comment))


def downgrade() -> None:
    op.drop_column("nodes", "address")
