"""The probe as part of a program: `lintrain.probe(…)` and its report."""
