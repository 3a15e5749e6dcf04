"""the answer of a session's last run, and what a run has to submit

Revision: 0020
After: 0019
"""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

_ADDED = {
    "answer": "Text of the last run's final message; null: it did not complete.",
    "output": "What the last run has submitted, as it had to meet a schema.",
    "output_format": "Schema, name and description of what runs submit; null: a text.",
    "run_output_format": "The same, from a message of the current run.",
}


def upgrade() -> None:
    for name, comment in _ADDED.items():
        op.add_column("sessions", sa.Column(name, sa.Text(), comment=comment))
    comment = "What the run that takes it has to submit; null: as the session says."
    op.add_column("queue", sa.Column("output_format", sa.Text(), comment=comment))


def downgrade() -> None:
    with op.batch_alter_table("queue") as batch:
        batch.drop_column("output_format")
    with op.batch_alter_table("sessions") as batch:
        for name in _ADDED:
            batch.drop_column(name)
