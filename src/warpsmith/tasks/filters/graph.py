"""Defects of a trace, such as dead calls."""

from collections import Counter
from collections.abc import Callable, Sequence

from warpsmith.tasks.filters.fingerprint import Fingerprint
from warpsmith.tasks.filters.report import Filter, FilterResult, Measure, Sense, Skip
from warpsmith.tasks.filters.thresholds import CONSTANT
from warpsmith.tasks.filters.trace import Source, TensorSnapshot, Trace, TracedCall, split_names

RANDOM = ("dropout", "rand", "bernoulli", "normal", "multinomial", "uniform_", "rrelu", "poisson", "exponential_")
CREATES = ("zeros", "ones", "full", "empty", "arange", "linspace", "eye", "tensor", "new_")
CASTS = split_names("to type type_as float half double bfloat16")
# Functions of one tensor that leave part of its domain as it is: on data of that part alone they do nothing.
PARTIAL = split_names("relu relu_ relu6 abs absolute leaky_relu threshold")
ARITHMETIC = split_names(
    "add sub mul div pow true_divide multiply divide subtract __add__ __radd__ __sub__ __mul__ __rmul__ __truediv__ "
    "__div__ __pow__ __iadd__ __imul__ add_ mul_ sub_ div_"
)
ROUNDING = 4 * 2.0**-23  # a result this much smaller than what it was made from is the noise of a cancellation
SHOWN = 5


def find_dead_code(traced: Trace) -> FilterResult | Skip:
    """Count calls whose result nothing uses."""
    # Calls inside of a torch module are judged with the author's line: the author cannot change them.
    live = _live_calls(traced)
    lines = {call.line for call in traced.calls if call.index in live}
    dead = [
        call
        for call in traced.calls
        if call.index not in live and not call.is_alias and not (call.inside and call.line in lines)
    ]
    # Values from outside of the trace hide their producers, so a call may look unused.
    lost = traced.strangers or any(kind == "unknown" for kind, _, _ in traced.outputs)
    if dead and lost:
        return Skip(
            filter=Filter.DEAD_CODE, reason="values come from outside the trace (a script or a constant tensor)"
        )
    return _count_result(Filter.DEAD_CODE, dead, "result that nobody uses")


def find_repeated_work(traced: Trace) -> FilterResult:
    """Count calls of one function on equal values. Views and random numbers do not count."""
    work = [call for call in traced.calls if call.reads and call.results and not _is_free(call)]
    counts = Counter(call.key for call in work)
    # The first call of a key is no repetition; reversed, so that the first index is the one that stays.
    first = {call.key: call.index for call in reversed(work)}
    again = [call for call in work if counts[call.key] > 1 and first[call.key] != call.index]
    return _count_result(Filter.REPEATED_WORK, again, "call that repeats an earlier one on the same values")


def find_constant_results(traced: Trace, other: Trace) -> FilterResult | Skip:
    """Count calls whose floating-point result is equal in both samples although their inputs differ."""
    if [call.name for call in traced.calls] != [call.name for call in other.calls]:
        return Skip(filter=Filter.CONSTANT_RESULT, reason="two draws take different ways through the function")
    pairs = zip(traced.calls, other.calls, strict=True)
    found = [
        one for one, two in pairs if not _has_name(one, CREATES) and _reads_vary(one, two) and _is_constant(one, two)
    ]
    return _count_result(Filter.CONSTANT_RESULT, found, "call whose result does not depend on what it reads")


def find_inefficiencies(traced: Trace, other: Trace) -> FilterResult:
    """Count calls that return their input or undo the call before."""
    users = Counter(owner for call in traced.calls for owner in {read.source[:2] for read in call.reads})
    second = {call.index: call for call in other.calls} if len(other.calls) == len(traced.calls) else {}

    def alone(source: Source) -> TracedCall | None:
        """Return the call that made a value if one call alone reads it, or None."""
        kind, place, _ = source
        # An output is read by the caller, so its producer has another reader.
        sole = kind == "call" and users[(kind, place)] == 1 and (kind, place) not in kept
        return traced.calls[place] if sole else None

    kept = {source[:2] for source in traced.outputs}
    found = [
        call
        for call in traced.calls
        if _does_nothing(call, second.get(call.index)) or any(rule(call, alone) for rule in UNDOES)
    ]
    return _count_result(Filter.INEFFICIENCY, found, "call that does nothing or undoes the one before")


def _live_calls(traced: Trace) -> set[int]:
    """Return the calls that reach an output."""
    waiting = [place for kind, place, _ in traced.outputs if kind == "call"]
    waiting += [call.index for call in traced.calls if call.escapes]
    live: set[int] = set()
    # Backwards from the outputs through the producers of everything that was read.
    while waiting:
        index = waiting.pop()
        if index not in live:
            live.add(index)
            waiting += [read.source[1] for read in traced.calls[index].reads if read.source[0] == "call"]
    return live


def _is_free(call: TracedCall) -> bool:
    """Whether repeating a call is no waste: views, writes, random and new tensors."""
    return call.is_alias or call.mutates or _has_name(call, RANDOM) or _has_name(call, CREATES)


def _has_name(call: TracedCall, stems: Sequence[str]) -> bool:
    """Whether a function's name matches one of the stems."""
    return any(stem in call.name for stem in stems) if stems is RANDOM else call.name.startswith(tuple(stems))


def _pair_fingerprints(
    one: Sequence[TensorSnapshot], two: Sequence[TensorSnapshot]
) -> list[tuple[Fingerprint, Fingerprint]]:
    """Return the fingerprints of a call's floating-point tensors in both samples."""
    pairs = zip(one, two, strict=False)
    return [(first.mark, second.mark) for first, second in pairs if first.mark and second.mark]


def _reads_vary(one: TracedCall, two: TracedCall) -> bool:
    """Return whether every floating-point tensor that was read differs between the samples.

    A state that starts at zero may stay equal.
    """
    pairs = _pair_fingerprints(one.reads, two.reads)
    return bool(pairs) and not any(a.equals(b, CONSTANT) for a, b in pairs)


def _is_constant(one: TracedCall, two: TracedCall) -> bool:
    """Return whether every floating-point result agrees, or is rounding noise of its inputs."""
    pairs = _pair_fingerprints(one.results, two.results)
    # Subtracting nearly equal values leaves their rounding, which differs between calls.
    noise = ROUNDING * max((read.mark.magnitude for read in one.reads if read.mark), default=0.0)
    return bool(pairs) and all(a.equals(b, CONSTANT) or max(a.magnitude, b.magnitude) <= noise for a, b in pairs)


def _does_nothing(call: TracedCall, again: TracedCall | None) -> bool:
    """Return whether an activation, or arithmetic with a number, leaves its tensor unchanged in both samples."""
    if call.name not in PARTIAL | ARITHMETIC or again is None:
        return False
    return all(_returns_its_input(one) for one in (call, again))


def _returns_its_input(call: TracedCall) -> bool:
    """Whether a call returns its first input unchanged."""
    if len(call.reads) != 1 or len(call.results) != 1:
        return False
    given, made = call.reads[0].mark, call.results[0].mark
    return bool(given and made and given.equals(made))


Alone = Callable[[Source], TracedCall | None]


def _is_view_undone(call: TracedCall, alone: Alone) -> bool:
    """Return whether a view of a view equals the first tensor, such as two transpositions."""
    before = alone(call.reads[0].source) if call.reads and call.is_alias and not call.mutates else None
    if before is None or not before.reads or not before.is_alias or before.mutates:
        return False
    there, back = call.reads[0].view, call.results[0].view
    return there != back and before.reads[0].view == back


def _is_cast_undone(call: TracedCall, alone: Alone) -> bool:
    """Return whether a cast is followed at once by the cast back."""
    before = alone(call.reads[0].source) if call.reads and call.name in CASTS and not call.is_alias else None
    if before is None or before.name not in CASTS or before.is_alias:
        return False
    return before.reads[0].view.dtype == call.results[0].view.dtype


def _is_needless_copy(call: TracedCall, alone: Alone) -> bool:
    """Return whether a call copies a result that nothing else reads."""
    before = alone(call.reads[0].source) if call.reads and call.name == "clone" else None
    return before is not None and not before.is_alias


UNDOES: tuple[Callable[[TracedCall, Alone], bool], ...] = (_is_view_undone, _is_cast_undone, _is_needless_copy)


def _count_result(filter_: Filter, found: Sequence[TracedCall], noun: str) -> FilterResult:
    """Return the result of a count of calls."""
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
