"""A task folder is read without running it, and a malformed one is refused with file, line, key and bound."""

from pathlib import Path

import pytest

from warpsmith.base import UsageError
from warpsmith.records import ArgumentKind, Direction, Dtype, Family, Group, Role
from warpsmith.tasks.formats.own import read_task
from warpsmith.tasks.suite import folders

MANIFEST = """name = "scale"
description = "Multiply by a number, for tests."
saved = ["out"]

[axes]
rows = { meaning = "rows", maximum = 1024 }
cols = { meaning = "columns", maximum = 1024 }

[tolerance]
norm_floor = { float32 = 1e-6 }

[cost.forward]
flops = "rows*cols"
bytes = "2*rows*cols*size"

[[cases]]
name = "small"
group = "smoke"
axes = { rows = 4, cols = 8 }
dtypes = ["float32", "float16"]
inits = ["default"]

[heldout]
axes = { rows = [1, 100], cols = [8, 64, 8] }
require = ["cols % 8 == 0"]
"""
SECOND = '[[cases]]\nname = "large"\ngroup = "dev"\naxes = { rows = 4, cols = 2048 }\n\n'
CODE = '''"""Scale."""
raise RuntimeError("describing a task must not run it")

def forward(x: Input, extra: Fixed | None, parts: tuple[Input, ...], factor: float, pads: list[int]) -> Tensor: ...

def saved(x, extra, parts, factor, pads): ...

def inputs(case, draw): ...
'''


def write(folder: Path, manifest: str = MANIFEST, code: str = CODE) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "task.toml").write_text(manifest)
    (folder / "task.py").write_text(code)
    return folder


def test_a_task_is_described_without_running_it(tmp_path: Path) -> None:
    task = read_task(write(tmp_path / "scale"))
    assert [case.name for case in task.cases] == ["small-float32", "small-float16"]
    assert task.cases[1].dtype is Dtype.FLOAT16
    assert task.group(Group.SMOKE) == task.cases
    assert task.directions == tuple(Direction)
    assert task.heldout is not None
    assert task.heldout.axes["cols"].multiple == 8


def test_the_signature_comes_from_the_annotations(tmp_path: Path) -> None:
    task = read_task(write(tmp_path / "scale"))
    kinds = [(a.name, a.kind, a.role) for a in task.forward.arguments]
    assert kinds == [
        ("x", ArgumentKind.TENSOR, Role.INPUT),
        ("extra", ArgumentKind.OPTIONAL_TENSOR, Role.FIXED),
        ("parts", ArgumentKind.TENSORS, Role.INPUT),
        ("factor", ArgumentKind.FLOAT, Role.CONSTANT),
        ("pads", ArgumentKind.INTS, Role.CONSTANT),
    ]
    assert task.backward is not None
    names = [a.name for a in task.backward.arguments]
    assert names == ["grad_out", "x", "extra", "parts", "factor", "pads", "out"]
    assert task.backward.results == ("grad_x", "grad_parts")


def test_the_version_follows_the_files(tmp_path: Path) -> None:
    before = read_task(write(tmp_path / "scale")).version
    after = read_task(write(tmp_path / "scale", code=CODE + "# changed\n")).version
    assert before != after


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "scale"', 'name = "scale', r"task.toml: not TOML: .*line 1"),
        ("rows = 4", "rows = -4", r"task.toml:16: case 'small': axis 'rows' is -4; allowed are 1 to 1024"),
        ("rows = 4", "rows = 4000000000", r"axis 'rows' is 4000000000; allowed are 1 to 1024"),
        ("rows = 4", "rosw = 4", r"axis 'rosw' does not exist; known are rows"),
        ("rows = 4, ", "", r"no size for axis rows"),
        ('"float16"]', '"float17"]', r"task.toml:20: key 'cases.0.dtypes.1': .*float32.*given 'float17'"),
        ('["default"]', '["defalt"]', r"key 'cases.0.inits.0': .*'default'.*given 'defalt'"),
        ('group = "smoke"', 'group = "smok"', r"task.toml:18: key 'cases.0.group'"),
        ("description =", "descripton =", r"key 'description': Field required"),
        ('"rows*cols"', '"rows*colz"', r"names colz; known are cols, rows"),
        ('name = "scale"', 'name = "Scale!"', r"task.toml:1: key 'name'"),
        ("[heldout]", SECOND + "[heldout]", r"task.toml:23: case 'large': axis 'cols' is 2048; allowed are 1 to 1024"),
    ],
)
def test_a_malformed_manifest_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    folder = write(tmp_path / "scale", manifest=MANIFEST.replace(old, new, 1))
    with pytest.raises(UsageError, match=message):
        read_task(folder)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def forward(:", r"task.py:1: not Python"),
        ("x = 1", r"no function 'forward'"),
        ("def forward(x: Input): ...\ndef saved(x): ...", r"no function 'inputs'"),
        ("def forward(x: Input): ...\ndef inputs(case, draw): ...", r"no function 'saved', which task.toml calls for"),
        ("def forward(x: str): ...", r"task.py:1: argument 'x' is annotated 'str'; allowed are Input"),
        ("def forward(*x): ...", r"plain arguments only"),
    ],
)
def test_malformed_code_is_refused(tmp_path: Path, code: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_task(write(tmp_path / "scale", code=code))


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"task.toml does not exist"):
        read_task(tmp_path)


def test_two_tasks_of_one_name_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "one")
    write(tmp_path / "two")
    with pytest.raises(UsageError, match=r"Two tasks are named 'scale': .*one and .*two"):
        folders(tmp_path)


def test_a_family_that_an_element_type_has_no_room_for_is_left_out(tmp_path: Path) -> None:
    wide = MANIFEST.replace('inits = ["default"]', 'families = ["normal", "vast", "offset"]')
    task = read_task(write(tmp_path / "scale", wide))
    assert task.cases[0].families == (Family.NORMAL, Family.VAST, Family.OFFSET)
    assert task.cases[1].families == (Family.NORMAL,)


def test_a_case_without_a_family_that_fits_is_told(tmp_path: Path) -> None:
    only = MANIFEST.replace('inits = ["default"]', 'families = ["vast"]')
    with pytest.raises(UsageError, match="case 'small': float16 has no room for vast; add the family normal"):
        read_task(write(tmp_path / "scale", only))


def test_forward_s_own_bounds_are_read_and_its_formula_is_checked(tmp_path: Path) -> None:
    own = MANIFEST.replace("[cost.forward]", '[tolerance.forward]\nreduction = "cols"\n\n[cost.forward]')
    assert read_task(write(tmp_path / "scale", own)).tolerance.of(Direction.FORWARD).reduction == "cols"
    with pytest.raises(UsageError, match="columns"):
        read_task(write(tmp_path / "scale", own.replace('"cols"', '"columns"')))
