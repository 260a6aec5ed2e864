"""The entry point: find the command, load its module, and turn errors into exit codes."""

import importlib
import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from types import FrameType

from warpsmith import __version__
from warpsmith.base import UsageError, WarpsmithError, find_nearest
from warpsmith.cli._commands import COMMANDS, Command
from warpsmith.cli._output import give_up_stdout, print_error, set_encoding

INTERRUPTED = 130
STOPPING = "stopping when what is in flight has ended; Ctrl-C again does not wait for it"
INTRO = """Usage: warpsmith COMMAND [ARGUMENTS]

Give it a PyTorch function; get back a CUDA kernel that is tested, honestly timed and faster."""
OUTRO = """Every command takes --help and --json. Exit codes: 0 done, 1 the candidate failed, 2 usage, 3 our fault,
4 no verdict. Start with: warpsmith doctor"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    sys.exit(run(list(sys.argv[1:] if arguments is None else arguments)))


def run(argv: list[str], dispatch: Callable[[list[str]], int] | None = None) -> int:
    """Run one command; return its exit code."""
    # Read before parsing: errors of parsing must be JSON as well.
    as_json = "--json" in argv
    set_encoding()
    # Plain lines on stderr; stdout belongs to the result.
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    logging.getLogger("warpsmith").setLevel(logging.INFO)  # long builds report on stderr
    try:
        code = (dispatch or call_command)(argv)
        sys.stdout.flush()  # a closed pipe raises here instead of at Python's exit
        # The exit status of a candidate's verdict comes from the command itself.
        return code
    except WarpsmithError as error:
        # Each error class carries its exit status (base/errors.py).
        return print_error(type(error).__name__.removesuffix("Error").lower(), str(error), error.exit_code, as_json)
    except KeyboardInterrupt as stop:
        print(f"interrupted: {stop}" if str(stop) else "interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # A reader such as `head` has closed the pipe, which is no error.
        give_up_stdout()
        return 0
    except Exception as error:  # noqa: BLE001 - the last seam: our fault, said in one line, never a bare traceback
        if os.environ.get("WARPSMITH_DEBUG"):
            traceback.print_exc()
        hint = "WARPSMITH_DEBUG=1 shows where."
        return print_error("fault", f"A fault of warpsmith: {type(error).__name__}: {error}. {hint}", 3, as_json)


def call_command(argv: list[str]) -> int:
    """Answer `--help` and `--version`, or call the command."""
    # Answered from the table: loading typer and a command's module takes a third of a second.
    if not argv or argv[0] in ("-h", "--help"):
        print(overview())
        return 0
    if argv[0] in ("-V", "--version"):
        print(f"warpsmith {__version__}")
        return 0
    row = next((row for row in COMMANDS if row.name == argv[0]), None)
    if row is None:
        # The command is unknown, so only near names help.
        near = find_nearest(argv[0], [row.name for row in COMMANDS])
        hint = f"Did you mean {' or '.join(near)}?" if near else "warpsmith --help lists the commands."
        raise UsageError(f"Command '{argv[0]}' does not exist. {hint}")
    return call(row, argv[1:])


def overview() -> str:
    """Return the program's help, from the table alone."""
    parts = [INTRO]
    for section, rows in groupby(COMMANDS, key=lambda row: row.section):
        parts.append("\n".join([section, *(f"  {row.name:<13}{row.summary}" for row in rows)]))
    return "\n\n".join([*parts, OUTRO])


def call(row: Command, argv: list[str]) -> int:
    """Load a command's module and run it through typer, whose errors become usage errors."""
    import typer  # a third of a second with rich: only once a command is known

    # typer ships click or its own copy of it; the base of its BadParameter is the UsageError of either.
    usage_error: type[Exception] = typer.BadParameter.__mro__[1]
    module = importlib.import_module(f"warpsmith.cli.{row.module}")
    if hasattr(module, "group"):
        app = module.group
    else:
        app = typer.Typer(add_completion=False)
        app.command(row.name)(module.command)
    # Typer's own message for a group without a command is an error.
    if not argv and hasattr(module, "group"):
        argv = ["--help"]  # a group without a command prints its help
    try:
        with _announce_interrupts(row):
            # standalone_mode=False: typer raises instead of exiting, so that all errors pass through `run`.
            code = app(argv, prog_name=f"warpsmith {row.name}", standalone_mode=False)
    except typer.Exit as leave:
        return int(leave.exit_code)
    except typer.Abort:
        code = INTERRUPTED
    except usage_error as error:
        raise UsageError(_usage_message(error, row)) from None
    except SystemExit as leave:
        if isinstance(leave.__context__, BrokenPipeError):  # click exits with 1 for a closed pipe
            raise leave.__context__ from None
        raise
    if code == INTERRUPTED:  # typer's code for an interrupt, and that of a command that handled one
        raise KeyboardInterrupt(row.interrupted)
    return code if isinstance(code, int) else 0


@contextmanager
def _announce_interrupts(row: Command) -> Iterator[None]:
    """Print on Ctrl-C that running work ends first."""

    def stop(number: int, frame: FrameType | None) -> None:
        print(STOPPING, file=sys.stderr, flush=True)
        # The second Ctrl-C acts at once.
        signal.signal(signal.SIGINT, usual)
        signal.default_int_handler(number, frame)

    usual = signal.getsignal(signal.SIGINT)
    # Another handler (as in a test or a notebook) stays in place.
    if not row.interrupted or usual is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


def _usage_message(error: Exception, row: Command) -> str:
    """Return typer's message as a sentence, with the help option of the command."""
    full = getattr(error, "format_message", None)  # names the option, which the bare message does not
    # pydantic puts "Value error, " before each message of a validator.
    text = (str(full() if full else error) or type(error).__name__).replace("Value error, ", "")
    stop = "" if text.endswith((".", "?", "!")) else "."
    where = getattr(getattr(error, "ctx", None), "command_path", f"warpsmith {row.name}")
    return f"{text}{stop} See {where} --help."
