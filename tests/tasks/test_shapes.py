"""Shapes from the command line."""

import pytest

from warpsmith.base import UsageError
from warpsmith.tasks.inputs.shapes import ExampleShape, read_shape, shape_text


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("32x1024", ExampleShape((32, 1024))),
        ("32x1024:float16", ExampleShape((32, 1024), "float16")),
        ("x=8x3x4", ExampleShape((8, 3, 4), name="x")),
        ("64:int64<1000", ExampleShape((64,), "int64", 1000)),
        (":float32", ExampleShape(())),
    ],
)
def test_a_shape_is_read(text: str, shape: ExampleShape) -> None:
    assert read_shape(text) == shape


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("32x-4", "size '-4'"),
        ("0x4", "size '0'"),
        ("32x", "size ''"),
        ("32,4", "Write sizes and an element type"),
        ("8:float23", "'float23' does not exist; known are float32, float16, .*, bool"),
        ("100000x100000", "10000000000 elements; at most 8589934592"),
    ],
)
def test_a_wrong_shape_says_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_shape(text)


def test_a_shape_is_written_as_it_is_read() -> None:
    assert read_shape(shape_text("x", (8, 3), "float16")) == ExampleShape((8, 3), "float16", name="x")
    assert read_shape(shape_text("x", (), "float32")) == ExampleShape((), name="x")


def test_the_usual_element_type_has_the_text_of_one_that_is_named() -> None:
    assert str(read_shape("8x16")) == str(read_shape("8x16:float32"))
    assert type(read_shape("8x16").dtype) is str
