"""A budget in dollars, checked before each request."""

import asyncio
import threading
from collections.abc import Callable

from warpsmith.base import UsageError
from warpsmith.llm.errors import BudgetSpent, RequestFailed
from warpsmith.llm.model import LanguageModel, ModelAnswer, Prompt


class Spend:
    """Dollars spent of a budget, shared by all models, threads and event loops of a run.

    Before a request its largest possible cost is reserved, afterwards its real cost is settled. So the sum never
    exceeds the budget. A failed request's possible cost counts in full, as `doubtful_usd`. A resumed run starts from
    `settled_usd`, its cost so far.
    """

    def __init__(self, budget_usd: float | None = None, settled_usd: float = 0.0) -> None:
        if budget_usd is not None and not 0 <= budget_usd < float("inf"):
            raise UsageError(f"A budget of {budget_usd:g} dollars is none. Give a number from 0 up, or no budget.")
        self.budget_usd = budget_usd
        self.settled_usd = settled_usd
        self.doubtful_usd = 0.0
        self.reserved_usd = 0.0
        self.requests = 0
        self.unpriced = 0  # requests whose price nobody knows
        # Requests that hold a reservation. The sum alone does not show them: a reservation may be 0 dollars.
        self._in_flight = 0
        self._lock = threading.Lock()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    @property
    def spent_usd(self) -> float:
        """Settled and possible dollars."""
        return self.settled_usd + self.doubtful_usd

    @property
    def left_usd(self) -> float:
        """The rest of the budget; infinite without a budget."""
        return float("inf") if self.budget_usd is None else max(0.0, self.budget_usd - self.spent_usd)

    async def reserve(self, usd: float, model: str) -> None:
        """Reserve `usd`; wait for open requests, or raise BudgetSpent."""
        while True:
            with self._lock:
                if self._try_reserve(usd, model):
                    return
                waiter = (asyncio.get_running_loop(), asyncio.Event())
                self._waiting.append(waiter)
            try:
                await waiter[1].wait()
            finally:
                with self._lock:
                    if waiter in self._waiting:
                        self._waiting.remove(waiter)

    def _try_reserve(self, usd: float, model: str) -> bool:
        """Reserve an amount and return True if the budget allows it."""
        # A budget of 0 dollars means that no model is asked, free ones included.
        if self.budget_usd is None or (self.budget_usd > 0 and usd + self.reserved_usd <= self.left_usd):
            self.reserved_usd += usd
            self.requests += 1
            self._in_flight += 1
            return True
        # Even if all requests in flight cost nothing, the budget would not suffice: waiting is useless.
        if self.budget_usd <= 0 or usd > self.left_usd:
            raise BudgetSpent(
                f"A request to {model} may cost {usd:.4f} dollars; {self.left_usd:.4f} are left of the budget of "
                f"{self.budget_usd:g}. Raise --budget-usd, or lower max_tokens=N of the model."
            )
        return False

    def settle(self, reserved_usd: float, usd: float | None, doubtful: bool = False) -> None:
        """Replace a reservation by the real cost; None if the price is unknown."""
        with self._lock:
            self._in_flight -= 1
            # With nobody in flight it is 0 exactly: what rounding leaves would be waited for in vain.
            self.reserved_usd = self.reserved_usd - reserved_usd if self._in_flight else 0.0
            self.unpriced += usd is None
            if doubtful:
                self.doubtful_usd += usd or 0.0
            else:
                self.settled_usd += usd or 0.0
            woken, self._waiting = self._waiting, []
        # Waiters belong to other event loops and threads; call_soon_threadsafe is the only safe way to wake them.
        for loop, event in woken:
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)


class MeteredModel:
    """A model that reserves costs before requests."""

    def __init__(self, model: LanguageModel, spend: Spend, bound: Callable[[Prompt], float | None]) -> None:
        self._model = model
        self._spend = spend
        self._bound = bound

    @property
    def name(self) -> str:
        """The name of the wrapped model."""
        return self._model.name

    async def ask(self, prompt: Prompt) -> ModelAnswer:
        """Send one request within the budget."""
        bound = self._bound(prompt)
        await self._spend.reserve(bound or 0.0, self.name)
        cost, doubtful = bound, True  # until we know better, as when we are cancelled or no usage is reported
        try:
            answer = await self._model.ask(prompt)
            if answer.usd is not None:
                cost, doubtful = answer.usd, False
        except RequestFailed as error:
            cost = bound if error.billed else 0.0
            error.usd = cost or 0.0
            raise
        finally:
            self._spend.settle(bound or 0.0, cost, doubtful)
        return answer.model_copy(update={"usd": cost})
