"""`update_plan`: the agent's own checklist, shown to users and not affected by compaction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

from pydantic import Field

from app.events import PlanItem
from app.tools.base import Arguments, ToolContext, ToolOutcome
from app.tools.text import CleanText

MAX_ITEMS = 50
MAX_ITEM_CHARS = 500

_MARKS = {"pending": " ", "in_progress": ">", "completed": "x"}


def render_plan(items: Iterable[PlanItem]) -> str:
    """The plan as a checklist, one line per item: `[ ]` pending, `[>]` in progress, `[x]` completed."""
    return "\n".join(f"[{_MARKS[item.status]}] {' '.join(item.text.split())}" for item in items)


class PlanEntry(Arguments):
    text: CleanText = Field(min_length=1, max_length=MAX_ITEM_CHARS)
    status: Literal["pending", "in_progress", "completed"] = "pending"


class UpdatePlanArguments(Arguments):
    items: tuple[PlanEntry, ...] = Field(max_length=MAX_ITEMS, description="The whole plan.")


class UpdatePlan:
    name: ClassVar[str] = "update_plan"
    description: ClassVar[str] = (
        "Replaces your plan, a checklist. Give all items each time, one of them in progress; mark items completed as "
        "soon as they are."
    )
    parallel_safe: ClassVar[bool] = False
    arguments: type[Arguments] = UpdatePlanArguments

    async def run(self, args: UpdatePlanArguments, context: ToolContext) -> ToolOutcome:
        items = tuple(PlanItem(text=entry.text, status=entry.status) for entry in args.items)
        await context.set_plan(items)
        context.output.write("stdout", render_plan(items).encode())
        return ToolOutcome(note="" if items else "[the plan is empty]")
