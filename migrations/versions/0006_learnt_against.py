"""the window assumed for a model when another one was learned from a refusal

Revision: 0006
After: 0005
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    known_tokens = sa.Column("known_tokens", sa.Integer(), comment="The window that was assumed before.")
    op.add_column("model_windows", known_tokens)
    op.add_column("model_windows", sa.Column("known_source", sa.String(20), comment="Source of that window."))


def downgrade() -> None:
    op.drop_column("model_windows", "known_source")
    op.drop_column("model_windows", "known_tokens")
