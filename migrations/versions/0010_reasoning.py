"""a session's reasoning effort, how a generation treats reasoning, and what was learned from models' refusals

Revision: 0010
After: 0009
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("sessions", sa.Column("reasoning_effort", sa.String(10), comment="Null: the model's default."))
    comment = "Whether plain reasoning is sent back to the model that wrote it."
    op.add_column("generations", sa.Column("echo_reasoning", sa.Boolean(), comment=comment))
    comment = "Whether the provider is asked to drop thinking that it cannot verify."
    op.add_column("generations", sa.Column("drop_block", sa.Boolean(), comment=comment))
    op.create_table(
        "model_quirks",
        sa.Column("model", sa.Text(), primary_key=True, comment="Base URL and name of the model."),
        sa.Column("quirks", sa.Text(), nullable=False, comment="What was learned from its refusals, as JSON."),
        sa.Column("learned_at", sa.BigInteger(), nullable=False),
        comment="How requests to a model must differ from the default form.",
    )


def downgrade() -> None:
    op.drop_table("model_quirks")
    op.drop_column("generations", "drop_block")
    op.drop_column("generations", "echo_reasoning")
    op.drop_column("sessions", "reasoning_effort")
