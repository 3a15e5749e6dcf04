"""The evaluation tool: measures what is still known of a recorded session after its context was made smaller.

With a model, the real ladder compacts a history once under each policy, then the model is asked probe questions whose
answers are known. Without one, a long history is replayed round by round, and the contexts are searched for the
answers. Nothing here reads settings or prints; the command line does.
"""

from app.context.policies import POLICY_NAMES
from evals.evaluate import Evaluation, evaluate, work_of
from evals.growth import GrowthSetup, grow
from evals.histories import (
    KINDS,
    LONG_HISTORIES,
    SET_ASIDE,
    InvalidHistoryError,
    Probe,
    RecordedHistory,
    load_packaged,
    packaged_names,
    read_history,
)
from evals.replay import Models
from evals.results import BASELINE, Answer, Report, Row, report
from evals.retention import Interval, Retention, RetentionReport, RetentionSums, retention_report
from evals.summarizers import Summarizer

__all__ = [
    "BASELINE",
    "KINDS",
    "LONG_HISTORIES",
    "POLICY_NAMES",
    "SET_ASIDE",
    "Answer",
    "Evaluation",
    "GrowthSetup",
    "Interval",
    "InvalidHistoryError",
    "Models",
    "Probe",
    "RecordedHistory",
    "Report",
    "Retention",
    "RetentionReport",
    "RetentionSums",
    "Row",
    "Summarizer",
    "evaluate",
    "grow",
    "load_packaged",
    "packaged_names",
    "read_history",
    "report",
    "retention_report",
    "work_of",
]
