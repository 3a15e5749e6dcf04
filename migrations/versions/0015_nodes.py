"""the nodes of a cluster, and whose requests started the runs

Revision: 0015
After: 0014
"""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    comment = "Id of the API key whose request started the run; null: no key."
    op.add_column("sessions", sa.Column("run_key", sa.String(32), comment=comment))
    active, owned = sa.text("status != 'idle'"), sa.text("owner IS NOT NULL")
    op.create_index("ix_sessions_run_key", "sessions", ["run_key"], sqlite_where=active, postgresql_where=active)
    op.create_index("ix_sessions_owner", "sessions", ["owner"], sqlite_where=owned, postgresql_where=owned)
    op.create_table(
        "nodes",
        sa.Column("id", sa.String(36), primary_key=True, comment="One for each start of a server."),
        sa.Column("name", sa.Text(), nullable=False, comment="Its machine's host name."),
        sa.Column("role", sa.String(10), nullable=False),
        sa.Column("version", sa.String(40), nullable=False),
        sa.Column(
            "slots",
            sa.Integer(),
            nullable=False,
            comment="Sessions that it runs at the same time; 0 without a worker.",
        ),
        sa.Column("draining", sa.Boolean(), nullable=False, comment="Whether it takes no more sessions."),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False, comment="By the database's clock."),
        comment="The nodes of a cluster.",
    )


def downgrade() -> None:
    op.drop_table("nodes")
    op.drop_index("ix_sessions_owner", "sessions")
    op.drop_index("ix_sessions_run_key", "sessions")
    op.drop_column("sessions", "run_key")
