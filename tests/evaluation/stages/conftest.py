"""The bench's tests run on small tensors: one thread of torch is faster than two that wait for each other."""

import torch

torch.set_num_threads(1)
