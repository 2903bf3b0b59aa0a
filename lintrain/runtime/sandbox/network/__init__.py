"""The network of a probed script: requests that only read pass, every other one is stopped before it is sent."""
