"""The rows of torch's modes."""

from warpsmith.records import MODES, TorchMode


def test_a_mode_under_a_graph_compiles_as_the_one_without() -> None:
    assert [mode for mode in MODES if mode.graph] == ["eager-graph", "compile-graph"]
    for mode in MODES:
        assert mode.compiler == TorchMode.from_name(mode.removesuffix("-graph")).compiler
        assert mode.prepared == bool(mode.compiler and not mode.graph)


def test_only_max_autotune_picks_by_timing() -> None:
    assert [mode for mode in MODES if mode.picks_by_timing] == ["max-autotune"]
    assert [mode for mode in MODES if not mode.compiler] == ["eager", "eager-graph"]
