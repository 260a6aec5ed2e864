"""The command line: parse, call `app`, print. One file for each command, loaded when it is called."""

from warpsmith.cli._main import main

__all__ = ["main"]
