"""What a coordinator commits besides positions."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.agent.plan import CommitPlan
from holdfast.agent.writes import Write
from holdfast.store.footer import GroupDeleted, GroupOffsetDeleted, GroupSaved


@dataclass(frozen=True, slots=True)
class ChangeGroup(Write):
    """Changes to one group, committed together."""

    changes: Sequence[GroupSaved | GroupDeleted | GroupOffsetDeleted]

    def plan(self, plan: CommitPlan) -> None:
        """Nothing to tell but success."""
        plan.changes.extend(self.changes)
