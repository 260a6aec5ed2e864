"""Files in findings are named as their writer knows them."""

import pytest

from warpsmith.machines.virtual.facts import plain_file


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/tmp/warpsmith-compile-a9aqvtx1/kernel.cu", "kernel.cu"),
        ("/usr/local/cuda/include/cuda_fp16.hpp", "/usr/local/cuda/include/cuda_fp16.hpp"),
        (
            "/tmp/warpsmith-compile-a9aqvtx1/include/torch/extension.h",
            "/tmp/warpsmith-compile-a9aqvtx1/include/torch/extension.h",
        ),
        ("", ""),
    ],
)
def test_the_candidate_s_own_file_has_no_folder(path: str, name: str) -> None:
    assert plain_file(path) == name
