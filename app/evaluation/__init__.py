"""Measured retention: what a model still knows about a recorded session after compaction.

A recorded history is replayed under each policy: the real ladder makes one round, then the model is asked probe
questions with known answers. Nothing here reads settings or prints; the command line does.
"""

from app.evaluation.evaluate import Evaluation, evaluate, work_of
from app.evaluation.histories import (
    KINDS,
    InvalidHistoryError,
    Probe,
    RecordedHistory,
    load_packaged,
    packaged_names,
    read_history,
)
from app.evaluation.replay import Models
from app.evaluation.results import BASELINE, Answer, Report, Row, report

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
