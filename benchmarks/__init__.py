"""Side by side with others, in one run: `python -m benchmarks.wire` (or `make bench`)."""
