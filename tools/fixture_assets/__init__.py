"""What `tools.build_fixtures` puts together: sentences, tokenizers, models, data sets and metrics, all tiny."""
