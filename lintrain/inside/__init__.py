"""The probe as a part of one's own program: `lintrain.probe(…)`, its report, callbacks, and the fixture for pytest."""
