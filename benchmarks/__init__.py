"""Speed and accuracy, one command each, compared with peers in the same run."""
