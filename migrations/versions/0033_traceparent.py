"""the traces of requests

Revision: 0033
After: 0031
"""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run = "The trace of the current or last run, as W3C names it."
    op.add_column("sessions", sa.Column("run_traceparent", sa.String(55), comment=run))
    posted = "The trace of the request that posted it."
    op.add_column("queue", sa.Column("traceparent", sa.String(55), comment=posted))
    of = "The trace of the run or request that it belongs to."
    op.add_column("events", sa.Column("traceparent", sa.String(55), comment=of))


def downgrade() -> None:
    op.drop_column("events", "traceparent")
    op.drop_column("queue", "traceparent")
    op.drop_column("sessions", "run_traceparent")
