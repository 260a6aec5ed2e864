"""The roofline as an SVG."""

import xml.etree.ElementTree as Xml

import pytest
from tests.evaluation.profile.made_facts import facts, kernel

from warpsmith.records import ProfileFacts, ProfileSource
from warpsmith.report.roofline import BOTTOM, LEFT, RIGHT, TOP, Mark, roofline_svg

SVG = "{http://www.w3.org/2000/svg}"
MARKS = [Mark("eager", 80.0), Mark("compile", 42.0)]


def drawn() -> Xml.Element:
    return Xml.fromstring(roofline_svg(facts(kernel("a<float>")), MARKS, "softmax & co"))


def test_it_is_one_picture_with_every_ceiling_and_every_point() -> None:
    picture = drawn()
    text = " ".join("".join(node.itertext()) for node in picture.iter(f"{SVG}text"))
    assert "DRAM 4.4 TB/s" in text
    assert "NVIDIA H200, ceilings measured" in text
    assert "float16, bfloat16 760 TFLOP/s" in text
    assert "the call: 40 µs, 78% of the roofline" in text
    assert "eager: 80 µs" in text
    assert "a<float>" in text
    assert "softmax & co" in text
    assert len(list(picture.iter(f"{SVG}circle"))) == 2 * 2  # the call and a kernel, here and in the legend
    assert len(list(picture.iter(f"{SVG}polygon"))) == 2 * 2


def test_points_lie_inside_the_axes() -> None:
    for sign in drawn().iter(f"{SVG}circle"):
        x, y = float(sign.attrib["cx"]), float(sign.attrib["cy"])
        assert LEFT <= x <= RIGHT
        assert y > BOTTOM or TOP <= y <= BOTTOM


def test_a_faster_baseline_stands_higher() -> None:
    first, second = list(drawn().iter(f"{SVG}polygon"))[:2]
    heights = {sign.attrib["points"].split(",")[1].split()[0] for sign in (first, second)}
    assert len(heights) == 2


def test_it_has_a_dark_side() -> None:
    assert "prefers-color-scheme: dark" in roofline_svg(facts())


def test_ceilings_alone_when_no_place_is_known() -> None:
    bare = facts().model_copy(update={"place": None, "kernels": ()})
    assert "no place is known" in roofline_svg(bare)
    with pytest.raises(ValueError, match="no roofline"):
        roofline_svg(ProfileFacts(source=ProfileSource.PTXAS))
