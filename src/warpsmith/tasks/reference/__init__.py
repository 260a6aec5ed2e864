"""Reference results and gradients of a task in float64."""
