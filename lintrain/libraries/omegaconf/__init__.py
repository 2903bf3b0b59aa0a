"""OmegaConf, Hydra and other settings objects."""
