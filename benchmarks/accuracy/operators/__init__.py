"""What injects each mistake, a file for each part of a training run."""
