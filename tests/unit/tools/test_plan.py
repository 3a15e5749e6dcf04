from __future__ import annotations

import pytest
from pydantic import ValidationError

from app.sessions import PlanItem
from app.tools.memory import UpdatePlan, UpdatePlanArguments, render_plan
from tests.unit.tools.workbench import Workbench

plan = UpdatePlan()


def test_a_plan_is_a_checklist_with_a_line_per_item() -> None:
    items = [
        PlanItem(text="read", status="completed"),
        PlanItem(text="write\nand [x] pretend", status="in_progress"),
        PlanItem(text="check"),
    ]
    assert render_plan(items) == "[x] read\n[>] write and [x] pretend\n[ ] check"
    assert render_plan([]) == ""


async def test_the_whole_plan_is_set_and_echoed(bench: Workbench) -> None:
    text, _ = await bench.run(plan, items=[{"text": "one", "status": "completed"}, {"text": "two\x00"}])
    assert bench.plans == [(PlanItem(text="one", status="completed"), PlanItem(text="two\ufffd"))]
    assert text == "[x] one\n[ ] two\ufffd"


async def test_an_empty_plan_clears_it(bench: Workbench) -> None:
    text, outcome = await bench.run(plan, items=[])
    assert (bench.plans, text, outcome.note) == ([()], "", "[the plan is empty]")


@pytest.mark.parametrize(
    "items",
    [
        [{"text": "x"}] * 51,
        [{"text": "x" * 501}],
        [{"text": ""}],
        [{"text": "x", "status": "done"}],
        [{"text": "x", "priority": 1}],
        [{}],
        "x",
        None,
    ],
)
def test_invalid_plans_are_refused(items: object) -> None:
    with pytest.raises(ValidationError):
        UpdatePlanArguments.model_validate({"items": items})


def test_the_largest_plan_is_accepted() -> None:
    assert len(UpdatePlanArguments.model_validate({"items": [{"text": "x" * 500}] * 50}).items) == 50
