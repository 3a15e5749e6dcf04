"""checkpoints, marks on cleared outputs, learned windows

Revision: 0003
After: 0002
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

ROUNDS: tuple[sa.Column[Any], ...] = (
    sa.Column(
        "background",
        sa.Boolean(),
        nullable=False,
        server_default=sa.false(),
        comment="Prepared while the agent kept working.",
    ),
    sa.Column("instructions", sa.Text(), comment="Of a manual round: what to keep, in the user's words."),
    sa.Column("settings", sa.Text(), comment="Of a manual round: its settings."),
    sa.Column("checkpoint", sa.Text(), comment="Of a completed round: what it covers, keeps and clips."),
    sa.Column("pruned", sa.Text(), comment="The calls whose outputs were cleared with it."),
)

GENERATIONS: tuple[sa.Column[Any], ...] = (
    sa.Column("rounds", sa.Text(), comment="The rounds of compaction in force."),
    sa.Column("pruned", sa.Text(), comment="Calls whose outputs are cleared from this generation on."),
    sa.Column("restored", sa.Text(), comment="Calls whose outputs are shown again from this generation on."),
)


def upgrade() -> None:
    for column in ROUNDS:
        op.add_column("compaction_events", column)
    for column in GENERATIONS:
        op.add_column("generations", column)
    op.add_column(
        "message_parts",
        sa.Column("compacted_at", sa.BigInteger(), comment="When its output was cleared from the context."),
    )
    op.create_table(
        "model_windows",
        sa.Column("model", sa.Text(), nullable=False, comment="Base URL and name of the model."),
        sa.Column("tokens", sa.Integer(), nullable=False, comment="Its window, learned from a refusal."),
        sa.Column("learned_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("model", name=op.f("pk_model_windows")),
        comment="Windows that providers have reported; each is trusted for a day.",
    )


def downgrade() -> None:
    op.drop_table("model_windows")
    op.drop_column("message_parts", "compacted_at")
    for column in reversed(GENERATIONS):
        op.drop_column("generations", column.name)
    for column in reversed(ROUNDS):
        op.drop_column("compaction_events", column.name)
