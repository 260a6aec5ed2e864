"""Names for C++."""

from warpsmith.tasks.formats.cnames import identifier, identifiers


def test_dots_and_dashes_become_underscores() -> None:
    assert identifier("conv.1.weight-g") == "conv_1_weight_g"


def test_a_word_of_cpp_gets_a_tail() -> None:
    assert identifier("default") == "default_"
    assert identifier("template") == "template_"


def test_a_digit_does_not_start_a_name() -> None:
    assert identifier("0.weight") == "_0_weight"


def test_names_that_collide_are_numbered() -> None:
    assert identifiers(["a.b", "a_b", "a_b"]) == ["a_b", "a_b_2", "a_b_3"]
