"""answered steps

Revision: 0037
After: 0036
"""

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None


def upgrade() -> None:
    comment = "When the model's answer had ended; its calls run from then on."
    op.add_column("steps", sa.Column("answered_at", sa.BigInteger(), comment=comment))


def downgrade() -> None:
    op.drop_column("steps", "answered_at")
