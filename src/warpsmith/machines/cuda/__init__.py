"""An NVIDIA GPU as the machine where a candidate runs."""
