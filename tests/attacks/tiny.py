"""A tiny model and its tokenizer, made in a script without a download."""

MODEL = """
        from tokenizers import Tokenizer, models as token_models, pre_tokenizers
        from transformers import DistilBertConfig, DistilBertForSequenceClassification, PreTrainedTokenizerFast
        words = Tokenizer(token_models.WordLevel({"[PAD]": 0, "[UNK]": 1, "one": 2, "two": 3}, unk_token="[UNK]"))
        words.pre_tokenizer = pre_tokenizers.Whitespace()
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]")
        sizes = {"vocab_size": 4, "dim": 8, "n_heads": 2, "n_layers": 1, "hidden_dim": 8, "max_position_embeddings": 16}
        model = DistilBertForSequenceClassification(DistilBertConfig(**sizes, num_labels=2))
        """
