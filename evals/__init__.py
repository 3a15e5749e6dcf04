"""The evaluation tool: measures what a model still knows of a recorded session after its context was made smaller.

A recorded history is replayed under each policy: the real ladder compacts it once, then the model is asked probe
questions whose answers are known. Nothing here reads settings or prints; the command line does.
"""

from evals.evaluate import Evaluation, evaluate, work_of
from evals.histories import (
    KINDS,
    InvalidHistoryError,
    Probe,
    RecordedHistory,
    load_packaged,
    packaged_names,
    read_history,
)
from evals.replay import Models
from evals.results import BASELINE, Answer, Report, Row, report

__all__ = [
    "BASELINE",
    "KINDS",
    "Answer",
    "Evaluation",
    "InvalidHistoryError",
    "Models",
    "Probe",
    "RecordedHistory",
    "Report",
    "Row",
    "evaluate",
    "load_packaged",
    "packaged_names",
    "read_history",
    "report",
    "work_of",
]
