"""Kernel names from linkers and profilers."""

import pytest

from warpsmith.evaluation.profile.words import plain_name, short_name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("_Z4copyPK6float4PS_l", "copy"),
        ("_ZN6fusion7softmaxIfEEvPT_", "softmax"),
        ("copy_rows(const float4 *, float4 *, long)", "copy_rows"),
        ("void tile<float, (int)4>(T1 *, int)", "tile<float, (int)4>"),
        ("void (anonymous namespace)::inner(float *)", "inner"),
        ("<unnamed>::inner(float *)", "inner"),
        ("plain", "plain"),
    ],
)
def test_the_own_name(text: str, name: str) -> None:
    assert plain_name(text) == name


def test_a_long_name_is_cut() -> None:
    assert len(short_name("k" * 300)) == 60
