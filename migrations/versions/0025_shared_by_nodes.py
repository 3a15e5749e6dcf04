"""what nodes share: repositories of checkpoints, and token counts

Revision: 0025
After: 0024
"""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "checkpoint_repositories",
        sa.Column("session_id", sa.String(36), sa.ForeignKey("sessions.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("version", sa.Integer(), nullable=False, comment="Raised by each new snapshot of the repository."),
        sa.Column("snapshot_id", sa.String(64), comment="The newest snapshot; null: the repository is empty."),
        sa.Column("uses", sa.Integer(), nullable=False, comment="How often the workspace was opened for changes."),
        sa.Column("seen_uses", sa.Integer(), comment="`uses` at the newest look; null: it may not have seen all."),
        sa.Column("restoring", sa.String(36), comment="The checkpoint whose restoration is not completed."),
        comment="The repositories with checkpoints that nodes share.",
    )
    op.create_table(
        "model_calibrations",
        sa.Column("model", sa.Text(), primary_key=True, comment="Base URL and name of the model."),
        sa.Column("factor", sa.Float(), nullable=False, comment="Tokens that it counts over those of the estimate."),
        comment="How far estimates are off, as nodes of a cluster have learned.",
    )
    _describe("As `runtime/webhooks/sealing.py` stores it.", "As `runtime/webhooks/signing.py` stores it.")


def _describe(now: str, before: str) -> None:
    """Comments are only in Postgres."""
    if op.get_bind().dialect.name == "postgresql":
        op.alter_column("webhooks", "secret", existing_type=sa.Text(), comment=now, existing_comment=before)


def downgrade() -> None:
    _describe("As `runtime/webhooks/signing.py` stores it.", "As `runtime/webhooks/sealing.py` stores it.")
    op.drop_table("model_calibrations")
    op.drop_table("checkpoint_repositories")
