"""What both CUDA C++ languages share: comments, tokens, tunables, skeletons, static rules, mutation operators."""
