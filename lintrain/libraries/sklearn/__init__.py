"""scikit-learn: arrays, splits and metrics."""
