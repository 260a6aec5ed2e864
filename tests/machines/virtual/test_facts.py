"""What the executor tells, as records."""

from warpsmith.machines.virtual import ExecutorFailure, Facts, describe
from warpsmith.records import Checker

TEXT = """{"findings":[
{"checker":"race","message":"two threads","kernel":"k","block":[1,0,0],"thread":[3,0,0],"file":"k.cu","line":7,
 "column":2,"start":4096,"bytes":4,"space":"shared","count":5},
{"checker":"launch","message":"too many","kernel":"k","block":[1,1,1],"thread":[1,1,1],"file":"","line":0,
 "column":0,"start":0,"bytes":0,"space":"","count":1}],
"kernels":[{"kernel":"k","launches":2,"in_graph":false,"grid":[4,1,1],"block":[256,1,1],"dynamic_shared":0,
"static_shared":512,"registers":40,"blocks_per_sm":6,"counters":{"thread_instructions":100,"warp_instructions":10,
"unique_read_bytes":64},"classes":{"fp32":5}}],
"log":"caf\\u00c3\\u00a9","printed_bytes":5,"transfers":0,"transferred_bytes":0,"findings_dropped":0,
"error":801,"failure":"unknown_instruction","detail":"wgmma.mma_async"}"""


def test_findings_keep_what_is_known_and_nothing_else() -> None:
    race, launch = (raw.finding() for raw in Facts.parse(TEXT).findings)
    assert race.checker is Checker.RACE and race.count == 5
    assert race.place is not None and (race.place.file, race.place.line) == ("k.cu", 7)
    assert race.thread == (3, 0, 0) and race.span is not None and race.span.space == "shared"
    assert launch.place is None and launch.thread is None and launch.span is None


def test_the_record_has_counters_occupancy_and_a_modelled_time() -> None:
    facts = Facts.parse(TEXT)
    record = facts.record(describe("H200"), "smoke")
    assert facts.failure is ExecutorFailure.UNKNOWN_INSTRUCTION
    assert record.unknown == "wgmma.mma_async" and record.case == "smoke"
    (kernel,) = record.kernels
    assert kernel.occupancy == 0.75 and kernel.registers == 40 and kernel.unique_read_bytes == 64
    assert kernel.modelled is not None and record.modelled is not None
    assert record.modelled.gpu == "H200" and record.modelled.us > kernel.modelled.us


def test_text_of_a_kernel_is_utf8_again() -> None:
    assert Facts.parse(TEXT).log == "café"
