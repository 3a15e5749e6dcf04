"""why a round of compaction failed

Revision: 0005
After: 0004
"""

import json

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

FAILED = sa.text(
    "select e.session_id, r.round, e.data from compaction_events r"
    " join events e on e.session_id = r.session_id and e.type = 'compaction.failed'"
    " where r.status = 'failed'"
)
"""The rounds that have failed so far, each with the failures of its session. Only these have the errors."""

TELL = sa.text("update compaction_events set error = :error where session_id = :session_id and round = :round")


def upgrade() -> None:
    op.add_column(
        "compaction_events",
        sa.Column("error", sa.Text(), comment="Of a failed round: code and detail of the error."),
    )
    connection = op.get_bind()
    for session_id, round, data in connection.execute(FAILED).all():
        event = json.loads(data)
        if event["round"] != round or event.get("next") is not None:
            continue
        error = json.dumps({"code": event["code"], "detail": event["detail"]}, ensure_ascii=False)
        connection.execute(TELL, {"error": error, "session_id": session_id, "round": round})


def downgrade() -> None:
    op.drop_column("compaction_events", "error")
