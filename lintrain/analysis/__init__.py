"""What several rules share: loops, gradients, batches, tokens, schedules, losses, trainers, arguments."""
