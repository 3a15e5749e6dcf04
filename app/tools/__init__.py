"""What an agent can do: tools by name, their schemas, and how their output gets to the model, the store and the live
preview. Tools know a sandbox and the context of one call, nothing of the layers above."""

from app.tools.base import Arguments, OutputSink, Tool, ToolContext, ToolOutcome
from app.tools.output import CollectedOutput, OutputCollector, OutputLimit, OutputStore, OutputWriter, left_out_line
from app.tools.plan import render_plan
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
