"""Is a load still within its budget? Told once at 80 %; at 100 % it is to stop, and that is remembered."""

from __future__ import annotations

from collections.abc import Callable

from backhaul.errors import BudgetExceeded
from backhaul.observe.cost import Share, Usage, share_used
from backhaul.project.load import Budget, Prices

ALERT_AT, STOP_AT = 0.8, 1.0


class BudgetWatch:
    """One load's. `about` names it in messages; `on_alert` is given a sentence, once."""

    def __init__(
        self,
        budget: Budget,
        prices: Prices,
        *,
        about: str,
        on_alert: Callable[[str], None] | None = None,
    ) -> None:
        self._budget = budget
        self._prices = prices
        self._about = about
        self._on_alert = on_alert
        self._alerted = self._ended = False
        self._exceeded: Share | None = None

    @property
    def exceeded(self) -> bool:
        return self._exceeded is not None

    def see(self, usage: Usage) -> None:
        """Judge what has been used so far. What is over stays over."""
        share = share_used(usage, usage.seconds, self._budget, self._prices)
        if self._ended or self.exceeded:
            return
        if share.share >= STOP_AT:
            self._exceeded = share
        elif share.share >= ALERT_AT and not self._alerted:
            self._alerted = True
            if self._on_alert is not None:
                self._on_alert(
                    f"{self._about} has used {share.share:.0%} of its budget: "
                    f"{share.limit}, {share.said}"
                )

    def check(self) -> None:
        """Raise when the budget is used up."""
        if self._exceeded is None:
            return
        raise BudgetExceeded(
            f"{self._about} was stopped, as it used up its budget: "
            f"{self._exceeded.limit}, {self._exceeded.said}; nothing was published",
            remedy=f"raise `budget.{self._exceeded.limit}` of the table, or load less at once",
        )

    def end(self) -> None:
        """The last check has passed: from here on nothing is stopped any more."""
        self._ended = True
