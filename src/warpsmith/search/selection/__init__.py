"""How kernels are selected: fitness, population, bandit, tuner, stop rules."""
