"""JSON inside other text: what stands there is found, and what does not parse is passed over."""

import pytest

from warpsmith.base import find_json_objects


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('so: {"a": {"b": 1}} and {"c": 2}', [{"a": {"b": 1}}, {"c": 2}]),
        ('[{"a": 1}, 3, {"b": 2}] {broken', [{"a": 1}, {"b": 2}]),
        ('{so} it is {"a": "two\nlines"}', [{"a": "two\nlines"}]),
        ("{" * 9999, []),
        (f'{{"n": {"7" * 9999}}} {{"a": 1}}', [{"a": 1}]),
        ("nothing", []),
    ],
)
def test_every_object_of_a_text(text: str, found: list[dict[str, object]]) -> None:
    assert list(find_json_objects(text)) == found
