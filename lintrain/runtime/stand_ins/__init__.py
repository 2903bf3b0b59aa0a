"""Stand-ins for what a machine lacks, with `--stand-ins`: checkpoints and data of the hub, a GPU, packages."""
