"""One package per framework: how it makes a batch, a loss and a step."""
