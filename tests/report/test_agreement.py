"""When two evaluations of a kernel say the same."""

import pytest

from warpsmith.records import CaseTiming, Group, MeasuredTime, ModelledTime, Reason, Record, Verdict
from warpsmith.records.fake import fake_candidate, fake_case, fake_time, timed_record
from warpsmith.report.agreement import AgreementAnswer, compare_records, time_ratios
from warpsmith.search.fake import fake_record

KERNEL = fake_candidate()
WITHIN = 0.1


def timed(*times: MeasuredTime | ModelledTime, group: Group = Group.TIMING, hardware: str = "cuda:H200") -> Record:
    """A record that passed with so many cases."""
    cases = [CaseTiming(case=fake_case(f"case{i}", group), time=time) for i, time in enumerate(times)]
    return timed_record(KERNEL, *cases, hardware=hardware)


@pytest.mark.parametrize(
    ("then", "now", "answer"),
    [
        (4.0, 4.0, AgreementAnswer.AGREES),
        (4.0, 4.39, AgreementAnswer.AGREES),
        (4.0, 4.5, AgreementAnswer.DISAGREES),
        (4.0, 3.5, AgreementAnswer.DISAGREES),
        (4.0, Reason.WRONG_VALUE, AgreementAnswer.DISAGREES),
        (Reason.WRONG_VALUE, 4.0, AgreementAnswer.DISAGREES),
        (Reason.WRONG_VALUE, Reason.CRASH, AgreementAnswer.AGREES),
    ],
)
def test_verdicts_and_times(then: float | Reason, now: float | Reason, answer: AgreementAnswer) -> None:
    found = compare_records("k.cu", fake_record(KERNEL, then), fake_record(KERNEL, now), WITHIN)
    assert found.answer is answer and found.where == "k.cu" and found.candidate == KERNEL.id


def test_a_kernel_without_a_record_should_pass() -> None:
    assert compare_records("k.cu", None, fake_record(KERNEL, 4.0), WITHIN).answer is AgreementAnswer.AGREES
    failed = compare_records("k.cu", None, fake_record(KERNEL, Reason.CRASH), WITHIN)
    assert failed.answer is AgreementAnswer.DISAGREES and failed.before is Verdict.PASS


def test_what_was_not_checked_says_nothing() -> None:
    unchecked = fake_record(KERNEL, 4.0).model_copy(update={"results": ()})
    assert compare_records("k.cu", fake_record(KERNEL, 4.0), unchecked, WITHIN).answer is AgreementAnswer.NO_VERDICT


def test_a_measured_time_is_never_compared_with_a_modelled_one() -> None:
    modelled = ModelledTime(us=2.0, gpu="H200")
    assert time_ratios(timed(fake_time(4.0)), timed(modelled)) is None
    assert time_ratios(timed(modelled), timed(ModelledTime(us=2.0, gpu="A100"))) is None
    found = compare_records("r.json", timed(fake_time(4.0)), timed(modelled, hardware="vgpu:H200"), WITHIN)
    assert found.answer is AgreementAnswer.AGREES and found.times is None
    assert found.notes == ("then on cuda:H200, now on vgpu:H200: times not compared",)


def test_times_are_compared_case_by_case() -> None:
    found = time_ratios(timed(fake_time(4.0), fake_time(1.0)), timed(fake_time(8.0), fake_time(2.0), fake_time(5.0)))
    assert found is not None and found.cases == 2 and found.kind == "measured" and found.ratio == pytest.approx(2.0)


def test_held_out_shapes_and_changed_tasks_are_other_work() -> None:
    drawn = timed(fake_time(4.0), group=Group.HELDOUT)
    assert time_ratios(drawn, drawn) is None
    before, after = timed(fake_time(4.0)), timed(fake_time(4.0)).model_copy(update={"task_version": "2"})
    assert time_ratios(before, after) is None
    assert "the task has changed since" in compare_records("r", before, after, WITHIN).notes
