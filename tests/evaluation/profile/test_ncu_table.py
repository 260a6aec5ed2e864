"""The tables of ncu 2025.3, captured on an H200."""

from pathlib import Path

import pytest

from warpsmith.evaluation.profile.ncu_table import read_launches, read_lines

CAPTURED = Path(__file__).parent / "captured"


def test_every_launch_with_its_numbers() -> None:
    launches = read_launches((CAPTURED / "ncu_metrics.csv").read_text())
    names = [launch.kernel.partition("(")[0] for launch in launches]
    assert names == ["copy_rows", "strided_sum", "bank_conflicts", "many_flops", "tiny"]
    copy = launches[0]
    assert (copy.grid, copy.block) == ((1056, 1, 1), (256, 1, 1))
    assert copy.values["gpu__time_duration.sum"] == 133_472
    assert copy.values["dram__bytes_read.sum"] == 268_452_096


def test_words_and_no_data_are_no_numbers() -> None:
    table = '"ID","Kernel Name","Grid Size","Block Size","a__x","b__y","c__z"\n"","","","","","%","us"\n'
    (launch,) = read_launches(f'==PROF== noise\n{table}"0","k","(1, 2, 3)","(32, 1, 1)","no data","nan","1,000.5"\n')
    assert launch.values == {"c__z": pytest.approx(1_000_500.0)}  # microseconds as nanoseconds
    assert launch.grid == (1, 2, 3)


@pytest.mark.parametrize("text", ["", "==ERROR== nothing", '"ID","Kernel Name"\n', '"ID","Kernel Name"\n"",""\n'])
def test_a_text_without_a_table_has_no_launches(text: str) -> None:
    assert read_launches(text) == ()


def test_sampled_lines_of_source() -> None:
    lines = read_lines((CAPTURED / "ncu_source.csv").read_text())
    hottest = max(lines, key=lambda line: line.samples)
    assert (hottest.file, hottest.line, hottest.samples) == ("prog.cu", 10, 32830)
    assert hottest.code.startswith("for (int i = 0; i < cols; ++i)")
    assert hottest.kernel.startswith("strided_sum(")
    assert [line.line for line in lines] == [6, 7, 8, 10, 11, 12]


def test_quotes_in_source_that_are_not_escaped_do_not_shift_the_numbers() -> None:
    text = '"File Path","/b/k.cu"\n"Function Name","k()"\n"Line No","Source","Address","# Samples"\n'
    (line,) = read_lines(text + '"7","printf("%s","x");","-","12"\n')
    assert (line.line, line.samples, line.code) == (7, 12, 'printf("%s","x");')
