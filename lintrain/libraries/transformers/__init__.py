"""transformers: tokenizers, models, arguments, trainers."""
