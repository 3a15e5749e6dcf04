"""images of messages

Revision: 0026
After: 0025
"""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "images",
        sa.Column("session_id", sa.String(36), sa.ForeignKey("sessions.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("digest", sa.String(64), primary_key=True, comment="SHA-256 of the data."),
        sa.Column("media_type", sa.String(20), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        comment="The images of messages, whose parts name them by their digests.",
    )
    parts = "The parts if it is not only a text; `content` then has their text form."
    op.add_column("queue", sa.Column("parts", sa.Text(), comment=parts))
    size = "Of all its images."
    op.add_column("queue", sa.Column("image_bytes", sa.Integer(), nullable=False, server_default="0", comment=size))
    task_parts = "The task's parts if it is not only a text; `task` then has their text form."
    op.add_column("sessions", sa.Column("task_parts", sa.Text(), comment=task_parts))
    sees = "Whether images are sent; null: yes."
    op.add_column("generations", sa.Column("sees_images", sa.Boolean(), comment=sees))


def downgrade() -> None:
    added = {"generations": ("sees_images",), "sessions": ("task_parts",), "queue": ("image_bytes", "parts")}
    for table, columns in added.items():
        with op.batch_alter_table(table) as batch:
            for name in columns:
                batch.drop_column(name)
    op.drop_table("images")
