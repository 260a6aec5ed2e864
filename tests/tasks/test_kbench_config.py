"""robust-kbench's configs as settings."""

import json
from pathlib import Path
from typing import Any

import pytest

from warpsmith.base import UsageError
from warpsmith.tasks.formats.kbench_config import MOST, read_settings


def written(folder: Path, config: Any) -> Path:
    path = folder / "config_forward.json"
    path.write_text(config if isinstance(config, str) else json.dumps(config))
    return path


def test_every_product_is_a_setting_and_shared_ones_win(tmp_path: Path) -> None:
    config = {
        "single_input_configs": [{"batch": 1, "width": 7}],
        "multi_init_configs": [{"init": "a"}, {"init": "b"}],
        "multi_input_configs": [{"batch": 2}, {"batch": 3}],
        "multi_shared_configs": [{"width": 9}],
    }
    found = read_settings(written(tmp_path, config))
    assert [setting.name for setting in found] == ["single_0", "multi_0", "multi_1", "multi_2", "multi_3"]
    assert found[0].input == {"batch": 1, "width": 7}
    assert found[-1].init == {"init": "b", "width": 9}
    assert found[-1].input == {"batch": 3, "width": 9}


def test_two_alike_are_one(tmp_path: Path) -> None:
    config = {"single_input_configs": [{"n": 1}], "multi_input_configs": [{"n": 2}, {"n": 1}]}
    assert [s.name for s in read_settings(written(tmp_path, config))] == ["single_0", "multi_0"]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ('{\n  "single_input_configs": [}\n', r"config_forward.json:2: not JSON"),
        ("[1]", "holds a list"),
        ("{}", "no case"),
        ('{\n\n"single_input_configs": [3]}', r"json:3: key 'single_input_configs': 3 is not an object"),
        (json.dumps({"multi_input_configs": [{"n": i} for i in range(MOST + 1)]}), f"{MOST + 1} cases; at most {MOST}"),
    ],
)
def test_a_malformed_file_names_line_and_key(tmp_path: Path, config: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_settings(written(tmp_path, config))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"config_forward\.json does not exist"):
        read_settings(tmp_path / "config_forward.json")
