"""the answer of a session's last run

Revision: 0017
After: 0015
"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    comment = "Text of the last run's final message; null: it did not complete."
    op.add_column("sessions", sa.Column("answer", sa.Text(), comment=comment))


def downgrade() -> None:
    with op.batch_alter_table("sessions") as batch:
        batch.drop_column("answer")
