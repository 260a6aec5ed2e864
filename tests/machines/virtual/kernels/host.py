"""What the functions of host.cu must give."""

import torch
from corpus import sample, whole

X = whole(700)

joined_streams = sample("joined_streams", X)(lambda x: x * 5)
synchronized_streams = sample("synchronized_streams", X)(lambda x: x * 2.5)
updated_graph = sample("updated_graph", X)(lambda x: x * 12)
forked_graph = sample("forked_graph", X)(lambda x: x * 5)
stream_memory = sample("stream_memory", X)(lambda x: x.clone())
launch_chain = sample("launch_chain", X)(lambda x: x * 1.5**4)
empty_tensor = sample("empty_tensor", torch.empty(0, 3))(lambda x: x)


@sample("copies", whole(6, 10))
def copies(x: torch.Tensor) -> torch.Tensor:
    right = torch.zeros(6, 10)
    right[:3] = torch.tensor([0x3F3F3F3F], dtype=torch.int32).view(torch.float32)
    return torch.cat([x + 1, right], 1)


@sample("symbols", torch.zeros(1, dtype=torch.int32))
def symbols(like: torch.Tensor) -> torch.Tensor:
    return torch.tensor([1, 2, 3, 4, 2, 3, 4, 5], dtype=torch.int32)


# A Hopper GPU: 2048 threads an SM, so eight blocks of 256.
@sample("device_facts", torch.zeros(1, dtype=torch.int32))
def device_facts(like: torch.Tensor) -> torch.Tensor:
    return torch.tensor([9, 32, 1024, 32, 8, 1024], dtype=torch.int32)
