"""How fast: clocks, stop rule, baselines, statistics. Times are believed only as far as two clocks agree."""
