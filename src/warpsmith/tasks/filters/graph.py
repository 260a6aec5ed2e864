"""What is wrong with a trace: dead calls, repeated ones, constant results, calls that do nothing."""

from collections import Counter
from collections.abc import Callable, Sequence

from warpsmith.tasks.filters.fingerprint import Fingerprint
from warpsmith.tasks.filters.report import Filter, FilterResult, Measure, Sense, Skip
from warpsmith.tasks.filters.thresholds import CONSTANT
from warpsmith.tasks.filters.trace import Source, TensorSnapshot, Trace, TracedCall, words

RANDOM = ("dropout", "rand", "bernoulli", "normal", "multinomial", "uniform_", "rrelu", "poisson", "exponential_")
CREATES = ("zeros", "ones", "full", "empty", "arange", "linspace", "eye", "tensor", "new_")
CASTS = words("to type type_as float half double bfloat16")
# Functions of one tensor that leave part of its domain as it is: on data of that part alone they do nothing.
PARTIAL = words("relu relu_ relu6 abs absolute leaky_relu threshold")
ARITHMETIC = words(
    "add sub mul div pow true_divide multiply divide subtract __add__ __radd__ __sub__ __mul__ __rmul__ __truediv__ "
    "__div__ __pow__ __iadd__ __imul__ add_ mul_ sub_ div_"
)
ROUNDING = 4 * 2.0**-23  # a result this much smaller than what it was made from is the noise of a cancellation
SHOWN = 5


def dead_code(traced: Trace) -> FilterResult | Skip:
    """Calls whose result reaches neither an output nor a value that left torch."""
    live = _live(traced)
    lines = {call.line for call in traced.calls if call.index in live}
    dead = [
        call
        for call in traced.calls
        if call.index not in live and not call.alias and not (call.inside and call.line in lines)
    ]
    lost = traced.strangers or any(kind == "unknown" for kind, _, _ in traced.outputs)
    if dead and lost:
        return Skip(
            filter=Filter.DEAD_CODE, reason="values come from outside the trace (a script or a constant tensor)"
        )
    return _counted(Filter.DEAD_CODE, dead, "result that nobody uses")


def repeated_work(traced: Trace) -> FilterResult:
    """Calls of the same function on the same values; views cost nothing, random numbers are drawn anew."""
    work = [call for call in traced.calls if call.reads and call.results and not _free(call)]
    counts = Counter(call.key for call in work)
    first = {call.key: call.index for call in reversed(work)}
    again = [call for call in work if counts[call.key] > 1 and first[call.key] != call.index]
    return _counted(Filter.REPEATED_WORK, again, "call that repeats an earlier one on the same values")


def constant_result(traced: Trace, other: Trace) -> FilterResult | Skip:
    """Calls whose floating result is the same for two draws although the floating tensors they read are not."""
    if [call.name for call in traced.calls] != [call.name for call in other.calls]:
        return Skip(filter=Filter.CONSTANT_RESULT, reason="two draws take different ways through the function")
    pairs = zip(traced.calls, other.calls, strict=True)
    found = [one for one, two in pairs if not _named(one, CREATES) and _varies(one, two) and _constant(one, two)]
    return _counted(Filter.CONSTANT_RESULT, found, "call whose result does not depend on what it reads")


def inefficiency(traced: Trace, other: Trace) -> FilterResult:
    """Calls that give back what they were given, or undo the call before."""
    users = Counter(owner for call in traced.calls for owner in {read.source[:2] for read in call.reads})
    second = {call.index: call for call in other.calls} if len(other.calls) == len(traced.calls) else {}

    def alone(source: Source) -> TracedCall | None:
        kind, place, _ = source
        sole = kind == "call" and users[(kind, place)] == 1 and (kind, place) not in kept
        return traced.calls[place] if sole else None

    kept = {source[:2] for source in traced.outputs}
    found = [
        call
        for call in traced.calls
        if _does_nothing(call, second.get(call.index)) or any(rule(call, alone) for rule in UNDOES)
    ]
    return _counted(Filter.INEFFICIENCY, found, "call that does nothing or undoes the one before")


def _live(traced: Trace) -> set[int]:
    """Calls reached backwards from the outputs and from values that left torch."""
    waiting = [place for kind, place, _ in traced.outputs if kind == "call"]
    waiting += [call.index for call in traced.calls if call.escapes]
    live: set[int] = set()
    while waiting:
        index = waiting.pop()
        if index not in live:
            live.add(index)
            waiting += [read.source[1] for read in traced.calls[index].reads if read.source[0] == "call"]
    return live


def _free(call: TracedCall) -> bool:
    return call.alias or call.mutates or _named(call, RANDOM) or _named(call, CREATES)


def _named(call: TracedCall, stems: Sequence[str]) -> bool:
    return any(stem in call.name for stem in stems) if stems is RANDOM else call.name.startswith(tuple(stems))


def _marks(one: Sequence[TensorSnapshot], two: Sequence[TensorSnapshot]) -> list[tuple[Fingerprint, Fingerprint]]:
    """The floating tensors of a call in both draws."""
    pairs = zip(one, two, strict=False)
    return [(first.mark, second.mark) for first, second in pairs if first.mark and second.mark]


def _varies(one: TracedCall, two: TracedCall) -> bool:
    """Every floating tensor that was read differs between the draws: a state that starts at zero may stay so."""
    pairs = _marks(one.reads, two.reads)
    return bool(pairs) and not any(a.same(b, CONSTANT) for a, b in pairs)


def _constant(one: TracedCall, two: TracedCall) -> bool:
    """Every floating result agrees, or is the rounding noise of what it was made from."""
    pairs = _marks(one.results, two.results)
    noise = ROUNDING * max((read.mark.size for read in one.reads if read.mark), default=0.0)
    return bool(pairs) and all(a.same(b, CONSTANT) or max(a.size, b.size) <= noise for a, b in pairs)


def _does_nothing(call: TracedCall, again: TracedCall | None) -> bool:
    """An activation or arithmetic with a number that leaves its one tensor as it is, in both draws."""
    if call.name not in PARTIAL | ARITHMETIC or again is None:
        return False
    return all(_unchanged(one) for one in (call, again))


def _unchanged(call: TracedCall) -> bool:
    if len(call.reads) != 1 or len(call.results) != 1:
        return False
    given, made = call.reads[0].mark, call.results[0].mark
    return bool(given and made and given.same(made))


Alone = Callable[[Source], TracedCall | None]


def _viewed_back(call: TracedCall, alone: Alone) -> bool:
    """A view of a view that is the first tensor again: transposed twice, reshaped there and back."""
    before = alone(call.reads[0].source) if call.reads and call.alias and not call.mutates else None
    if before is None or not before.reads or not before.alias or before.mutates:
        return False
    there, back = call.reads[0].view, call.results[0].view
    return there != back and before.reads[0].view == back


def _cast_back(call: TracedCall, alone: Alone) -> bool:
    """A cast to another element type and straight back to the first."""
    before = alone(call.reads[0].source) if call.reads and call.name in CASTS and not call.alias else None
    if before is None or before.name not in CASTS or before.alias:
        return False
    return before.reads[0].view.dtype == call.results[0].view.dtype


def _copied(call: TracedCall, alone: Alone) -> bool:
    """A copy of a result that nobody else looks at."""
    before = alone(call.reads[0].source) if call.reads and call.name == "clone" else None
    return before is not None and not before.alias


UNDOES: tuple[Callable[[TracedCall, Alone], bool], ...] = (_viewed_back, _cast_back, _copied)


def _counted(filter_: Filter, found: Sequence[TracedCall], noun: str) -> FilterResult:
    shown = ", ".join(call.label for call in found[:SHOWN]) + (", …" if len(found) > SHOWN else "")
    return FilterResult(
        filter=filter_,
        passed=not found,
        value=len(found),
        threshold=0,
        sense=Sense.AT_MOST,
        detail=f"{noun}: {shown}" if found else f"no {noun}",
        measures=tuple(Measure(what=call.label, value=1) for call in found),
    )
