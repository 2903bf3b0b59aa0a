"""torch: modules, tensors, losses, loaders, optimizers and schedules."""
