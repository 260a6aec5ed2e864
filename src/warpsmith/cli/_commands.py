"""The commands: name, module, and the line that `--help` prints. A new command is a new row."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """A row of the table. `module` has a `group` (a group of commands) or a function `command`."""

    name: str
    module: str
    summary: str
    section: str
    interrupted: str = ""  # printed after Ctrl-C


COMMANDS = (
    Command("doctor", "doctor", "the parts of this machine that are used, and what to install", "Look around"),
    Command("tasks", "tasks", "list | show | filter PyTorch functions to replace", "Look around"),
    Command("compile", "compile", "compile a kernel: resources and diagnostics", "One kernel"),
    Command(
        "run-virtual", "run_virtual", "run a kernel on the virtual GPU: findings with lines, counters", "One kernel"
    ),
    Command("eval", "eval", "check and time a kernel: the verdict with its evidence", "One kernel"),
    Command("profile", "profile", "the binding resource of a kernel; its place under the roofline", "One kernel"),
    Command(
        "eval-batch",
        "eval_batch",
        "evaluate many kernels as JSON lines; resumes after a kill",
        "Many kernels",
        "with --out the same command resumes where it ended",
    ),
    Command("baselines", "baselines", "measure torch's modes once, for all later evaluations", "Many kernels"),
    Command("calibrate", "calibrate", "measure the verifiers on a labelled corpus", "Many kernels"),
    Command("audit", "audit", "try attacks and honest controls on the evaluator", "Many kernels"),
    Command("pool", "pool", "start | status | stop evaluators that stay ready for all commands", "Many kernels"),
    Command(
        "optimize",
        "optimize",
        "search for a faster kernel: models, tuner, or both",
        "Searches",
        "everything is saved, and --run NAME --resume continues",
    ),
    Command("ask", "ask", "write the next prompts of a search as files", "Searches"),
    Command(
        "tell",
        "tell",
        "take the answers, or the records of an evaluation elsewhere",
        "Searches",
        "finished evaluations are saved, and the same command continues",
    ),
    Command("runs", "runs", "list the searches of the archive with their states", "Searches"),
    Command("show", "show", "show one search: settings, outcomes, best kernel and lineage", "Searches"),
    Command("best", "best", "write the best kernel of a search to a file", "Searches"),
    Command("report", "report", "searches as a page: HTML, markdown or JSON; --suite: the leaderboard", "Searches"),
    Command("export", "export", "a kernel that passed, as an installable Python package", "Published"),
    Command("regrade", "regrade", "evaluate published records or kernels again, and compare", "Published"),
)
