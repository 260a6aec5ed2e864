"""When a run ends: each rule a function of how far it is. Knows no clock and no model."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What a user set. None is no bound."""

    generations: int = 10
    evaluations: int | None = None
    usd: float | None = None
    minutes: float | None = None
    target: float | None = None  # gain over the start
    roofline: float | None = None  # share of what the memory allows
    patience: int | None = 4  # generations without a gain


@dataclass(frozen=True)
class RunProgress:
    """How far a run is."""

    generation: int = 0
    evaluations: int = 0
    usd: float = 0.0
    minutes: float = 0.0
    gain: float = 1.0
    roofline: float | None = None
    idle: int = 0  # generations since the best one was found
    exhausted: bool = False  # nobody has anything left to propose
    out_of_budget: bool = False  # a request could have cost more than is left


def left(now: RunProgress, most: Limits) -> int | None:
    """How many evaluations the limits leave; None without a bound."""
    return None if most.evaluations is None else max(0, most.evaluations - now.evaluations)


Rule = Callable[[RunProgress, Limits], str]


def _usd(now: RunProgress, most: Limits) -> str:
    over = most.usd is not None and most.usd > 0 and now.usd >= most.usd
    return f"{now.usd:.2f} of {most.usd:.2f} dollars are spent" if over else ""


def _minutes(now: RunProgress, most: Limits) -> str:
    over = most.minutes is not None and now.minutes >= most.minutes
    return f"{now.minutes:.1f} of {most.minutes:.1f} minutes are over" if over else ""


def _evaluations(now: RunProgress, most: Limits) -> str:
    over = most.evaluations is not None and now.evaluations >= most.evaluations
    return f"{now.evaluations} of {most.evaluations} evaluations are done" if over else ""


def _target(now: RunProgress, most: Limits) -> str:
    there = most.target is not None and now.gain >= most.target
    return f"the target of {most.target:.2f}× is reached: {now.gain:.2f}×" if there else ""


def _roofline(now: RunProgress, most: Limits) -> str:
    near = most.roofline is not None and now.roofline is not None and now.roofline >= most.roofline
    return f"the best kernel is at {now.roofline:.0%} of the roofline, {most.roofline:.0%} was asked" if near else ""


def _patience(now: RunProgress, most: Limits) -> str:
    idle = most.patience is not None and now.idle >= most.patience
    return f"no gain for {now.idle} generations" if idle else ""


def _exhausted(now: RunProgress, most: Limits) -> str:
    if now.exhausted and now.out_of_budget:
        return "the budget holds no further request, and the tuner has nothing left to try"
    return "nothing is left to propose" if now.exhausted else ""


def _generations(now: RunProgress, most: Limits) -> str:
    return f"{now.generation} of {most.generations} generations are done" if now.generation >= most.generations else ""


RULES: tuple[Rule, ...] = (_target, _roofline, _usd, _minutes, _evaluations, _exhausted, _patience, _generations)


def stop(now: RunProgress, most: Limits) -> str:
    """Why to end, or nothing."""
    return next((why for rule in RULES if (why := rule(now, most))), "")
