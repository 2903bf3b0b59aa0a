"""What several tests use: projects, servers, probes and readings made for them."""
