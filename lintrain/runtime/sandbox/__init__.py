"""What a probed script may change: files, network, programs."""
