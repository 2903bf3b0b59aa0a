"""How quick lintrain is, beside the floor and beside other linters: `python -m benchmarks.speed`."""
