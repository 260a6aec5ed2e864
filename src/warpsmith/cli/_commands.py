"""The commands by name: the module that holds each and the line that `--help` prints. Adding one is adding a row."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """A row of the table. `module` has an `app` (a group of commands) or a function `command`."""

    name: str
    module: str
    summary: str
    section: str
    interrupted: str = ""  # what holds after Ctrl-C


COMMANDS = (
    Command("doctor", "doctor", "what this machine can do, and what to install for the rest", "Look around"),
    Command("tasks", "tasks", "list | show | filter the torch functions to be replaced", "Look around"),
    Command("compile", "compile", "a kernel to an artifact in seconds: resources and diagnostics", "One kernel"),
    Command(
        "run-virtual", "run_virtual", "a kernel on the virtual GPU: faults with their lines, counters", "One kernel"
    ),
    Command("eval", "eval", "is a kernel right, and how fast: the verdict with its evidence", "One kernel"),
    Command("profile", "profile", "what binds a kernel, in numbers; its place under the roofline", "One kernel"),
    Command(
        "eval-batch",
        "eval_batch",
        "many kernels as JSON lines; goes on after a kill",
        "Many kernels",
        "with --out the same command goes on where it ended",
    ),
    Command("baselines", "baselines", "torch's modes measured once, for all later evaluations", "Many kernels"),
    Command("calibrate", "calibrate", "verifiers on a labelled corpus: how often right, what saved", "Many kernels"),
    Command("audit", "audit", "attacks and honest controls: what gets through, what is refused", "Many kernels"),
    Command(
        "optimize",
        "optimize",
        "search for a faster kernel: models, tuner, or both",
        "Searches",
        "everything is kept, and --run NAME --resume goes on",
    ),
    Command("ask", "ask", "the next prompts of a search as files, for whoever writes kernels", "Searches"),
    Command(
        "tell",
        "tell",
        "take the answers, or the records of an evaluation elsewhere",
        "Searches",
        "what was evaluated is kept, and the same command goes on",
    ),
    Command("runs", "runs", "the searches that the archive holds, and how they stand", "Searches"),
    Command("show", "show", "one search: its settings, how evaluations ended, the best and its lineage", "Searches"),
    Command("best", "best", "the best kernel of a search, written to a file", "Searches"),
    Command("report", "report", "searches as a page: HTML, markdown or JSON; --suite: the leaderboard", "Searches"),
    Command("export", "export", "a kernel that passed, as an installable Python package", "Published"),
    Command("regrade", "regrade", "published records or kernels again, here: do they agree", "Published"),
)
