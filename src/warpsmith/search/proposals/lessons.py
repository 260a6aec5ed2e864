"""Lessons: what helped and what failed, with numbers, as short lines that go into prompts. Asks no model."""

from collections import Counter
from collections.abc import Iterable, Sequence

from warpsmith.records import HELPED, HURT, Lesson, Record

MOST = 10  # lines in a prompt
MOST_KEPT = 200  # of a run


def lesson_of(task: str, what: str, record: Record, gain: float | None) -> Lesson | None:
    """What a record teaches; one that the kernel is not to blame for teaches nothing."""
    if gain is not None:
        return Lesson(task=task, what=what[:160], gain=gain)
    result = record.ended
    if result is None or result.reason is None or result.blameless:
        return None
    return Lesson(task=task, what=what[:160], fault=f"{result.reason}: {' '.join(result.detail.split())[:160]}")


def notes(lessons: Sequence[Lesson], task: str, most: int = MOST) -> list[str]:
    """The lines worth a prompt: this task's best and worst, its commonest faults, then what helped elsewhere."""
    own = [one for one in lessons if one.task == task]
    timed = sorted((one for one in own if one.gain is not None), key=lambda one: -(one.gain or 0))
    helped = [one for one in timed if (one.gain or 0) >= HELPED][:4]
    hurt = [one for one in reversed(timed) if (one.gain or 0) <= HURT][:2]
    elsewhere = sorted((one for one in lessons if one.task != task and (one.gain or 0) >= 1.1), key=_by_gain)[:3]
    lines = [*(one.line() for one in helped), *(one.line() for one in hurt), *_faults(own)]
    lines += [one.line(foreign=True) for one in elsewhere]
    return list(dict.fromkeys(lines))[:most]


def kept(lessons: Iterable[Lesson]) -> list[Lesson]:
    """The lessons that a run carries on: the latest, so that it does not grow without bound."""
    return list(lessons)[-MOST_KEPT:]


def _faults(own: Sequence[Lesson]) -> list[str]:
    """The commonest faults, each with how often it was seen and the last example."""
    failed = [one for one in own if one.gain is None]
    counts = Counter(one.fault.partition(":")[0] for one in failed)
    lines = []
    for reason, count in counts.most_common(3):
        last = next(one for one in reversed(failed) if one.fault.startswith(reason))
        lines.append(f"failed {'once' if count == 1 else f'{count} times'} with {last.fault}")
    return lines


def _by_gain(one: Lesson) -> float:
    return -(one.gain or 0.0)
