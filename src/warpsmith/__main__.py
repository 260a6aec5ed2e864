"""`python -m warpsmith`, for a machine where the package is on PYTHONPATH and not installed."""

from warpsmith.cli import main

main()
