"""Stop rules: functions of a run's progress and configuration."""

from collections.abc import Callable
from dataclasses import dataclass

from warpsmith.search.config import SearchConfig


@dataclass(frozen=True)
class RunProgress:
    """The numbers of a run that the rules read."""

    generation: int = 0
    evaluations: int = 0
    usd: float = 0.0
    minutes: float = 0.0
    gain: float = 1.0
    roofline: float | None = None
    idle: int = 0  # generations since the best kernel was found
    exhausted: bool = False  # neither a model nor the tuner proposes anything
    out_of_budget: bool = False  # the next request could cost more than the rest of the budget


def evaluations_left(now: RunProgress, config: SearchConfig) -> int | None:
    """Return the evaluations left, or None without bound."""
    most = config.budget_evaluations
    # A resumed run may have more evaluations than a budget that was lowered.
    return None if most is None else max(0, most - now.evaluations)


Rule = Callable[[RunProgress, SearchConfig], str]


def _usd(now: RunProgress, config: SearchConfig) -> str:
    most = config.budget_usd
    return f"{now.usd:.2f} of {most:.2f} dollars are spent" if most is not None and 0 < most <= now.usd else ""


def _minutes(now: RunProgress, config: SearchConfig) -> str:
    most = config.budget_minutes
    return f"{now.minutes:.1f} of {most:.1f} minutes are over" if most is not None and now.minutes >= most else ""


def _evaluations(now: RunProgress, config: SearchConfig) -> str:
    is_over = evaluations_left(now, config) == 0
    return f"{now.evaluations} of {config.budget_evaluations} evaluations are done" if is_over else ""


def _goal(now: RunProgress, config: SearchConfig) -> str:
    is_reached = config.goal is not None and now.gain >= config.goal
    return f"the target of {config.goal:.2f}× is reached: {now.gain:.2f}×" if is_reached else ""


def _roofline(now: RunProgress, config: SearchConfig) -> str:
    goal = config.roofline
    if goal is None or now.roofline is None or now.roofline < goal:
        return ""
    return f"the best kernel is at {now.roofline:.0%} of the roofline, {goal:.0%} was asked"


def _patience(now: RunProgress, config: SearchConfig) -> str:
    is_over = config.patience is not None and now.idle >= config.patience
    return f"no gain for {now.idle} generations" if is_over else ""


def _exhausted(now: RunProgress, _config: SearchConfig) -> str:
    if now.exhausted and now.out_of_budget:
        return "the budget holds no further request, and the tuner has nothing left to try"
    return "nothing is left to propose" if now.exhausted else ""


def _generations(now: RunProgress, config: SearchConfig) -> str:
    is_over = now.generation >= config.generations
    return f"{now.generation} of {config.generations} generations are done" if is_over else ""


# The first rule that holds is the reason that a run gives, so goals come before limits.
RULES: tuple[Rule, ...] = (_goal, _roofline, _usd, _minutes, _evaluations, _exhausted, _patience, _generations)


def find_stop(now: RunProgress, config: SearchConfig) -> str:
    """Return why the run ends, or an empty text if it goes on."""
    return next((why for rule in RULES if (why := rule(now, config))), "")
