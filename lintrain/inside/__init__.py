"""The probe as a part of one's own program: `lintrain.probe(…)` and its report."""
