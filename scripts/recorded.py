"""Make tests/recorded again: the same answers, in the same order, to the questions as they are asked now.

Usage: python scripts/recorded.py [RUN]...; all runs of runs.toml by default. Takes a few minutes.
"""

import contextlib
import io
import json
import os
import sys
import tempfile
import tomllib
from collections import deque
from pathlib import Path

from warpsmith.archive import Archive
from warpsmith.cli import main
from warpsmith.llm.tape import read_transcript

FOLDER = Path(__file__).parents[1] / "tests" / "recorded"


def command(*words: str) -> None:
    """One command of warpsmith; it ends well or so does this script not."""
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            main(list(words))
        except SystemExit as ended:
            if ended.code:
                raise


def asked(name: str, row: dict[str, str | int], tape: Path) -> list[str]:
    """The words that begin a run, its answers kept in `tape`."""
    task = str(row["task"])
    place = str(FOLDER / task) if "/" in task else task
    words = ["ask", name, "--task", place, "--direction", str(row["direction"]), "--device", "vgpu"]
    return [*words, "-n", str(row["proposals"]), "--record", str(tape)]


def record(name: str, row: dict[str, str | int], work: Path) -> None:
    """Ask, answer as before and tell, until every recorded answer is given; then put both files in their place."""
    header, exchanges = read_transcript(FOLDER / name / "traffic.jsonl")
    answers = deque(one.answer.text if one.answer else "" for one in exchanges)
    letters, tape, seen = work / name, work / f"{name}.jsonl", set[str]()
    command(*asked(name, row, tape), "--who", header.voices[0].name, "--out", str(letters))
    while answers:
        for question in json.loads((letters / "ask.json").read_text())["names"]:
            if question not in seen and answers and (text := answers.popleft()):
                (letters / f"{question}.answer.md").write_text(text)
            seen.add(question)
        command("tell", name, str(letters), "--drop")
        if answers:
            command("ask", name, "--out", str(letters))
    with Archive.open() as archive:
        entries = sorted(archive.records(name), key=lambda entry: entry.tags.proposal)
    (FOLDER / name / "traffic.jsonl").write_text(tape.read_text())
    (FOLDER / name / "records.jsonl").write_text("".join(f"{one.record.text()}\n" for one in entries))


if __name__ == "__main__":
    rows = tomllib.loads((FOLDER / "runs.toml").read_text())
    with tempfile.TemporaryDirectory() as folder:
        os.environ["WARPSMITH_ARCHIVE"] = f"sqlite:///{folder}/archive.sqlite"
        for one in sys.argv[1:] or rows:
            record(one, rows[one], Path(folder))
            print(one)
