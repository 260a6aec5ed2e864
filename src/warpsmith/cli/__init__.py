"""The command line: parse, wire, call, print. One file a command; a command's module is loaded when it is called."""

from warpsmith.cli._main import main

__all__ = ["main"]
