"""What the tests of the search share: kernels that declare tunables, a search on fakes, answers of a model."""

from collections.abc import Sequence

from warpsmith.archive import Archive, Run
from warpsmith.llm import Ensemble, LanguageModel
from warpsmith.records import Candidate, Direction, Task
from warpsmith.search import PromptContext, Search, SearchConfig, SearchTask, SearchTools
from warpsmith.search.fake import Clock, fake_evaluator

KERNEL = """\
// tune: BLOCK = 256 [64, 128, 256, 512]
#ifndef BLOCK
#define BLOCK 256
#endif
// tune: VEC = 1 [1, 2, 4]
#ifndef VEC
#define VEC 1
#endif
#include <torch/extension.h>
__global__ void scale(float* out, const float* x, int n) {
  int i = blockIdx.x * BLOCK + threadIdx.x;
  if (i < n) out[i] = x[i] * 2.0f;
}
torch::Tensor forward(torch::Tensor x) {
  auto out = torch::empty_like(x);
  scale<<<1, BLOCK>>>(out.data_ptr<float>(), x.data_ptr<float>(), x.numel());
  return out;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""


Aim = tuple[SearchTask, SearchConfig]


def start(source: str = KERNEL) -> Candidate:
    return Candidate(task="layernorm", direction=Direction.FORWARD, source=source, origin="seed")


def aim(task: Task, first: Candidate | None, config: SearchConfig | None = None) -> Aim:
    context = PromptContext(task, Direction.FORWARD, "a GPU")
    return SearchTask("layernorm", context, first, seed=7), config or SearchConfig()


def run_record(name: str = "r") -> Run:
    return Run(name=name, target="layernorm", task="layernorm", direction=Direction.FORWARD, device="fake", seed=7)


def search(archive: Archive, one: Aim, clock: Clock, models: Sequence[LanguageModel] = (), name: str = "r") -> Search:
    """A search on fakes; the run is begun when it is not there."""
    if name not in {run.name for run in archive.runs()}:
        archive.start(run_record(name))
    tools = SearchTools(fake_evaluator(clock), Ensemble(list(models)), jobs=2)
    return Search(archive, archive.run(name), *one, tools)


def kernel(body: str) -> str:
    """A kernel without tunables that differs from others by its body."""
    _, tail = KERNEL.split("#include <torch/extension.h>")
    return "#include <torch/extension.h>" + tail.replace("x[i] * 2.0f", body).replace("BLOCK", "256")


def answer(code: str, name: str = "a kernel") -> str:
    """An answer as a model should give it."""
    return f"Name: {name}\nThought: it is better.\n\n```cuda\n{code}```\n"
