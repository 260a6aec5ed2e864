"""The baseline process: a request without samples leaves no choice behind that was made on a shared GPU."""

import pickle
from types import SimpleNamespace

import pytest
from torch._inductor.fx_passes import pad_mm
from torch._inductor.runtime.autotune_cache import AutotuneCache

from warpsmith.evaluation.timing.baseline_server import refuse_timed_choices

CONFIG = SimpleNamespace(kwargs={"XBLOCK": 128}, num_warps=4, num_stages=1)


class Files:
    """Where torch keeps the autotuner's picks."""

    def __init__(self) -> None:
        self.put_keys: list[str] = []

    def put(self, key: str, _pick: object) -> None:
        self.put_keys.append(key)


def saved() -> list[str]:
    files = Files()
    AutotuneCache("hash", local_cache=(files, "key.best_config")).save(CONFIG, 5)  # type: ignore[arg-type]
    return files.put_keys


def test_choices_by_timing_are_forgotten_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for owner, name in ((AutotuneCache, "save"), (pad_mm, "get_do_bench")):
        monkeypatch.setattr(owner, name, getattr(owner, name))  # given back after the test
    assert saved() == ["key.best_config"]
    refuse_timed_choices()
    assert saved() == []
    with pytest.raises(RuntimeError, match="the GPU is shared"):
        pad_mm.get_do_bench()(lambda: None)
    in_a_graph = pickle.dumps(AutotuneCache("hash").save)
    monkeypatch.undo()
    assert pickle.loads(in_a_graph).__func__ is AutotuneCache.save
    assert saved() == ["key.best_config"]
