"""The roofline as an SVG, and as a PNG where the machine can draw one."""

import sys
import xml.etree.ElementTree as Xml
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from made_facts import facts, kernel

from warpsmith.base import MachineError, UsageError
from warpsmith.evaluation.profile import Mark, roofline_svg
from warpsmith.evaluation.profile.plot import BOTTOM, LEFT, RIGHT, TOP
from warpsmith.evaluation.profile.png import PROGRAMS, check_plot, to_png
from warpsmith.records import ProfileFacts, ProfileSource

SVG = "{http://www.w3.org/2000/svg}"
MARKS = [Mark("eager", 80.0), Mark("compile", 42.0)]


def drawn(theme: str = "auto") -> Xml.Element:
    return Xml.fromstring(roofline_svg(facts(kernel("a<float>")), MARKS, "softmax & co", theme))  # type: ignore[arg-type]


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
    assert "prefers-color-scheme" not in roofline_svg(facts(), theme="dark")
    assert roofline_svg(facts(), theme="dark") != roofline_svg(facts(), theme="light")


def test_ceilings_alone_when_no_place_is_known() -> None:
    bare = facts().model_copy(update={"place": None, "kernels": ()})
    assert "no place is known" in roofline_svg(bare)
    with pytest.raises(ValueError, match="no roofline"):
        roofline_svg(ProfileFacts(source=ProfileSource.PTXAS))


def test_a_plot_of_another_form_is_refused_before_anything_is_run(tmp_path: Path) -> None:
    check_plot(None)
    check_plot(tmp_path / "a.svg")
    with pytest.raises(UsageError, match=r"use \.svg or \.png"):
        check_plot(tmp_path / "a.pdf")
    with pytest.raises(UsageError, match="does not exist"):
        check_plot(tmp_path / "no" / "a.svg")


def test_a_png_needs_a_program_that_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MachineError, match=r"\.svg instead"):
        check_plot(tmp_path / "a.png")
    drawer = tmp_path / next(iter(PROGRAMS))
    drawer.write_text(
        '#!/bin/sh\nfor word; do case $word in --output=*) printf PNG > "${word#--output=}";; esac; done\n'
    )
    drawer.chmod(0o755)
    check_plot(tmp_path / "a.png")
    assert to_png(roofline_svg(facts(), theme="light")) == b"PNG"


def test_a_program_that_draws_nothing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    drawer = tmp_path / next(iter(PROGRAMS))
    drawer.write_text("#!/bin/sh\necho no fonts >&2\nexit 1\n")
    drawer.chmod(0o755)
    with pytest.raises(MachineError, match="no fonts"):
        to_png("<svg/>")
