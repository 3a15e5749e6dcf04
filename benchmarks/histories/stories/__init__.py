"""The stories, each about a different kind of work."""

from benchmarks.histories.stories.changes_of_mind import CHANGES_OF_MIND
from benchmarks.histories.stories.huge_outputs import HUGE_OUTPUTS
from benchmarks.histories.stories.long_adapters import LONG_ADAPTERS
from benchmarks.histories.stories.long_jobs import LONG_JOBS
from benchmarks.histories.stories.long_log import LONG_LOG
from benchmarks.histories.stories.long_museum import LONG_MUSEUM
from benchmarks.histories.stories.many_small_steps import MANY_SMALL_STEPS
from benchmarks.histories.stories.other_scripts import OTHER_SCRIPTS
from benchmarks.histories.stories.parallel_calls import PARALLEL_CALLS
from benchmarks.histories.story import Story

STORIES: tuple[Story, ...] = (
    CHANGES_OF_MIND,
    HUGE_OUTPUTS,
    LONG_ADAPTERS,
    LONG_JOBS,
    LONG_LOG,
    LONG_MUSEUM,
    MANY_SMALL_STEPS,
    OTHER_SCRIPTS,
    PARALLEL_CALLS,
)

__all__ = ["STORIES"]
