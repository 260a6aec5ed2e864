"""The display of a running search: a panel on a terminal, a line for each event elsewhere."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from warpsmith.base import escape_controls, pluralize
from warpsmith.cli._output import console

if TYPE_CHECKING:
    from rich.console import RenderableType

    from warpsmith.search import SearchView
    from warpsmith.search.selection import RankedKernel

SHOWN_LINES = 8
GPU_EVERY_S = 2.0


class Display:
    """A run's panel; `show` may be called from any thread."""

    def __init__(self, title: str, gpu: bool) -> None:
        self.title = title
        self._gpu = gpu
        self._busy: int | None = None
        self._lines: list[str] = []
        self._view: SearchView | None = None

    def name(self, title: str) -> None:
        """Set the title."""
        self.title = title

    def show(self, view: "SearchView") -> None:
        """Show the next view."""
        self._view = view
        # A bounded list: a search has thousands of events.
        if view.said:
            self._lines = [*self._lines, view.said][-SHOWN_LINES:]

    def poll(self, stop: threading.Event) -> None:
        """Read the utilization of the busiest GPU until stopped."""
        from warpsmith.machines.hardware import gpu_state, gpus

        # A query of the driver may take long, so a thread of its own reads the GPU.
        while self._gpu and not stop.wait(GPU_EVERY_S):
            busy = [gpu_state(gpu.uuid).busy_percent for gpu in gpus()]
            self._busy = max((percent for percent in busy if percent is not None), default=None)

    def __rich__(self) -> "RenderableType":
        from rich.console import Group
        from rich.panel import Panel
        from rich.text import Text

        view = self._view
        if view is None:
            return Panel("starting", title=self.title)
        # One line for each row: wrapped rows would let the panel jump in height.
        rows = [Text(line, no_wrap=True, overflow="ellipsis") for line in summary(view, self._busy)]
        return Panel(Group(*rows, Text(), *(Text(line, style="dim") for line in self._lines)), title=self.title)


class Lines(Display):
    """A display of one line for each event."""

    def name(self, title: str) -> None:
        """Print the title at once: a killed run is resumed by its name."""
        print(title, flush=True)

    def show(self, view: "SearchView") -> None:
        """Print the event, and the totals at the end of a generation."""
        if view.said:
            # Names of kernels come from models and may hold control sequences.
            print(f"  {escape_controls(view.said)}", flush=True)
        if view.phase == "done":
            print(escape_controls("; ".join(summary(view, None))), flush=True)


@contextmanager
def display(title: str, gpu: bool, quiet: bool) -> "Iterator[Display]":
    """Yield the display for stdout; a silent one for JSON."""
    # Without a terminal there is nothing to redraw, and JSON output must stay one document.
    if quiet or not sys.stdout.isatty():
        yield Display(title, gpu) if quiet else Lines(title, gpu)
        return
    from rich.live import Live

    shown, stop = Display(title, gpu), threading.Event()
    poller = threading.Thread(target=shown.poll, args=(stop,), daemon=True)
    poller.start()
    try:
        with Live(shown, console=console(), refresh_per_second=4):
            yield shown
    finally:
        stop.set()
        poller.join()


def summary(view: "SearchView", busy: int | None) -> list[str]:
    """Return the state of a run as lines."""
    where = f"generation {view.generation}, {view.phase} {view.done} of {view.slots}"
    spent = f"{pluralize(view.evaluations, 'evaluation')}, {view.minutes:.1f} minutes"
    if view.usd:
        spent += f", {view.usd:.3f} dollars"
    if busy is not None:
        spent += f", GPU {busy} % busy"
    funnel = ", ".join(f"{count} {word}" for word, count in sorted(view.funnel.items(), key=lambda pair: -pair[1]))
    return [where, spent, *([f"verdicts: {funnel}"] if funnel else []), *best_lines(view.best, view.lineage)]


def best_lines(best: "RankedKernel | None", lineage: tuple[str, ...] = ()) -> list[str]:
    """Return the best kernel and its lineage as lines."""
    from warpsmith.cli._archive import score_text
    from warpsmith.languages.cuda import format_macros

    if best is None:
        return ["no correct kernel yet"]
    macros = best.record.candidate.macros
    # The name of a tuned kernel is its macros already.
    tuned = f" with {format_macros(macros)}" if macros and best.name != format_macros(macros) else ""
    line = f"best: {best.gain:.2f}× the first kernel, {score_text(best.fitness.score)}: {best.name}{tuned}"
    return [line, *([f"lineage: {' → '.join(lineage)}"] if len(lineage) > 1 else [])]
