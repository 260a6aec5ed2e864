"""A first hour with warpsmith in one file: read it from top to bottom, then run it.

    python docs/walkthrough.py

It needs neither a GPU nor a key: kernels are compiled by the real nvcc and run on the virtual GPU. The same calls with
`device="cuda"` use a real one. It takes less than a minute on two cores, most of it in the compiler; the first command
on a machine builds warpsmith's native parts before, once.
"""

from pathlib import Path

import warpsmith
from warpsmith.archive import Archive
from warpsmith.evaluation import EvaluationConfig
from warpsmith.records import CheckFacts, Record, score

VIRTUAL = EvaluationConfig(device="vgpu")
SEED = Path(warpsmith.__file__).parent / "tasks" / "suite" / "swiglu" / "seed_forward.cu"


def said(record: Record) -> str:
    """The verdict, and how each stage came to it."""
    stages = ", ".join(f"{one.stage} {one.verdict}" for one in record.results)
    return f"{record.concluded.upper()}: {stages}"


# 1. A task is a torch function. The suite has sixteen; `warpsmith tasks show swiglu` prints this one: silu(gate) * up.
#    A kernel for it is a .cu file as you would write it for torch. Each task comes with a simple correct one, its seed.

print("1. The seed of swiglu, evaluated")
kernel = SEED.read_text()
record = warpsmith.evaluate("swiglu", kernel, config=VIRTUAL)
print("  ", said(record))
assert record.concluded == "pass"

# 2. What makes this worth believing is in the record. The inputs came from a seed that was drawn just now, some of the
#    shapes too; the truth is float64; every case was called several times, so that nothing can be remembered.

print("2. Why one may believe it")
checked = record.result("check")
assert checked is not None and isinstance(checked.facts, CheckFacts)
for case in checked.facts.cases:
    shape = " ".join(f"{name}={size}" for name, size in case.case.axes.items())
    print(
        f"   {case.case.name}: {shape} {case.case.dtype}, {case.calls} calls, worst error {case.worst:.2g} of its bound"
    )
print(f"   secret seed, told afterwards: {record.options.seeds[0]}")

# 3. Now break it the way people do: one element too far. Nothing crashes, and on a GPU it would probably look fine.

print("3. One element too far")
assert "rest < count" in kernel
longer = kernel.replace("rest < count", "rest <= count")
broken = warpsmith.evaluate("swiglu", longer, config=VIRTUAL)
print("  ", said(broken))
stopped = broken.results[-1]
assert broken.concluded == "fail" and isinstance(stopped.facts, CheckFacts) and stopped.facts.findings
lines = longer.splitlines()
for finding in stopped.facts.findings:
    if finding.place and finding.place.file == "kernel.cu":  # and not in a header that the kernel includes
        print(f"   line {finding.place.line}: {lines[finding.place.line - 1].strip()}")
        print(f"   {finding.checker}: {finding.message}")

# 4. And another way: a cheaper formula that is nearly right. There is no fault in memory now; the numbers give it away.

print("4. A formula that is nearly right")
assert "1.0f + expf(-g)" in kernel
cheaper = warpsmith.evaluate("swiglu", kernel.replace("1.0f + expf(-g)", "1.01f + expf(-g)"), config=VIRTUAL)
print("  ", said(cheaper))
print("  ", cheaper.results[-1].detail)
assert cheaper.concluded == "fail"

# 5. A kernel may say what can be varied: `// tune: BLOCK = 256 [128, 256, 512]`. With no model named, the search is a
#    tuner over these lines; with `models="anthropic:..."` language models rewrite the kernel too. Times of the virtual
#    GPU are modelled. They rank kernels; they are never called measured.

print("5. A search, with the tuner alone")
run = warpsmith.optimize("swiglu", device="vgpu", generations=1, proposals=3)
print(f"   run {run.name}: {run.state}, {run.why}")

# 6. Everything that was tried is in the archive, at every moment: a search that is killed goes on with --resume. The
#    last line is the winner once more: it is evaluated at length before it is called the best.

print("6. The best of it")
with Archive.open() as archive:
    for entry in archive.records(run.name):
        macros = " ".join(f"{name}={value}" for name, value in entry.record.candidate.macros.items())
        print(f"   {entry.verdict}: {macros or 'the seed as it is'}")
    best = archive.best(run.name)
assert best is not None
found = score(best.record)
assert found is not None and found.kind == "modelled"
print(f"   best: {found.us:.2f} µs modelled over {found.cases} cases, {dict(best.record.candidate.macros)}")

# 7. From here on it is the command line.

print("7. Go on with")
print(f"   warpsmith show {run.name}")
print(f"   warpsmith report {run.name} --html report.html")
print(f"   warpsmith export {run.name} --to swiglu_kernel")
