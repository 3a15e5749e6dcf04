"""The tools of an agent: their schemas, their work in a sandbox, and how their output reaches the model, the store
and the live preview."""

from app.tools.base import Arguments, OutputSink, Tool, ToolContext, ToolOutcome
from app.tools.memory import render_plan
from app.tools.output import CollectedOutput, OutputCollector, OutputLimit, OutputStore, OutputWriter, left_out_line
from app.tools.registry import ToolRegistry, default_tools
from app.tools.store import FileOutputStore

__all__ = [
    "Arguments",
    "CollectedOutput",
    "FileOutputStore",
    "OutputCollector",
    "OutputLimit",
    "OutputSink",
    "OutputStore",
    "OutputWriter",
    "Tool",
    "ToolContext",
    "ToolOutcome",
    "ToolRegistry",
    "default_tools",
    "left_out_line",
    "render_plan",
]
