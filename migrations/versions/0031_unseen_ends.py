"""ends of runs that no client has shown

Revision: 0031
After: 0030
"""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    comment = "Whether its last run has ended since a client showed it; null: no."
    op.add_column("sessions", sa.Column("unseen", sa.Boolean(), comment=comment))


def downgrade() -> None:
    op.drop_column("sessions", "unseen")
