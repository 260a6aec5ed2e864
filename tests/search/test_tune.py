"""Tunables: what a declaration means, and what is said of one that cannot be read."""

import pytest
from evolving import KERNEL, start

from warpsmith.languages.cuda.tunables import read_space, with_macros


def guarded(line: str, name: str = "B") -> str:
    return f"// first\n{line}\n#ifndef {name}\n#define {name} 1\n#endif\n"


def test_a_space_is_read_with_its_lines() -> None:
    space = read_space(KERNEL)
    assert [(one.name, one.default, one.line) for one in space.tunables] == [("BLOCK", "256", 1), ("VEC", "1", 5)]
    assert space.size == 12 and not space.bad


def test_points_are_said_by_what_differs_from_the_defaults_and_the_default_comes_first() -> None:
    points = list(read_space(KERNEL).points())
    assert points[0] == {} and len(points) == 12
    assert {"BLOCK": "512", "VEC": "4"} in points and {"VEC": "2"} in points
    assert not any(point.get("BLOCK") == "256" for point in points)


def test_a_source_without_declarations_has_one_point() -> None:
    space = read_space("// tuned by hand: BLOCK = 4 [1]\nint x;\n")
    assert space.size == 1 and list(space.points()) == [{}] and not space.bad


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("// tune: B", "is not NAME = DEFAULT"),
        ("// tune: B = 1", "is not NAME = DEFAULT"),
        ("// tune: B = 1 [2, 4]", "the default 1 of B is not among its choices 2, 4"),
        ("// tune: B = 1 [1, 2 3]", "is no number and no name"),
        ("// tune: B = 1 []", "is no number and no name"),
        ("// tune: B = 1 [1, ]", "is no number and no name"),
        ("// tune: B = 1 [1, system(0)]", "is no number and no name"),
        (f"// tune: B = 1 [{', '.join(map(str, range(1, 80)))}]", "79 choices; at most 64"),
        ("// tune: C = 1 [1, 2]", "C has no guard: write #ifndef C"),
        ("// tune: B = 1 [1, 2]\n// tune: B = 2 [2, 4]", "B was declared in line 2 already"),
    ],
)
def test_a_bad_declaration_is_a_value_with_its_line(line: str, complaint: str) -> None:
    space = read_space(guarded(line))
    assert len(space.bad) == 1 and complaint in space.bad[0].message
    assert space.bad[0].line == 2 + line.count("\n")


def test_a_bad_declaration_leaves_the_others() -> None:
    space = read_space(guarded("// tune: X\n// tune: B = 1 [1, 2]"))
    assert [one.name for one in space.tunables] == ["B"] and len(space.bad) == 1


def test_a_tuned_candidate_descends_from_the_one_it_tunes() -> None:
    first = start()
    child = with_macros(first, {"VEC": "4"})
    assert child.parents == (first.id,) and child.macros == {"VEC": "4"} and child.id != first.id


def test_a_child_begins_where_its_parent_was_tuned_as_far_as_it_has_the_same_choices() -> None:
    space = read_space(KERNEL)
    assert space.restrict_macros({"BLOCK": "512", "VEC": "8", "OTHER": "1"}) == {"BLOCK": "512"}
    assert space.restrict_macros({"BLOCK": "256"}) == {}
