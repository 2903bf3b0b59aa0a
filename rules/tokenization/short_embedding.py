"""An embedding has fewer rows than the numbers of the words need.

The first batch with a number at or above the size of the embedding raises an error on a CPU, or a failed assertion on a
GPU, where TensorFlow gives zeros in place of the row. Batches without such a number train as usual.

The numbers of the `Tokenizer` of Keras begin with 1, so the number of the last word is the number of words, and an
embedding of so many rows ends one row before it.

## Bad

    from tensorflow.keras.preprocessing.text import Tokenizer

    tokenizer = Tokenizer()
    tokenizer.fit_on_texts(texts)
    words = len(tokenizer.word_index)
    network = keras.Sequential()
    network.add(keras.layers.Embedding(words, 32))  # <- short-embedding
    network.add(keras.layers.GlobalAveragePooling1D())
    network.add(keras.layers.Dense(1, activation="sigmoid"))
    network.compile(optimizer="adam", loss="binary_crossentropy")

A vocabulary that is limited to more words than the embedding has rows:

    vectorize = keras.layers.TextVectorization(max_tokens=20000, output_sequence_length=100)
    network = keras.Sequential([keras.layers.Embedding(10000, 32), keras.layers.LSTM(8)])  # <- short-embedding
    network.compile(optimizer="adam", loss="mse")

A dictionary of the script:

    vocab = {"<pad>": 0}
    for word in ["a", "b", "a"]:
        if word not in vocab:
            vocab[word] = len(vocab) + 1
    layer = nn.Embedding(len(vocab), 32, padding_idx=0)  # <- short-embedding
    optimizer = torch.optim.Adam(layer.parameters())

## Good

    from tensorflow.keras.preprocessing.text import Tokenizer

    tokenizer = Tokenizer()
    tokenizer.fit_on_texts(texts)
    words = len(tokenizer.word_index) + 1
    network = keras.Sequential()
    network.add(keras.layers.Embedding(words, 32))
    network.add(keras.layers.GlobalAveragePooling1D())
    network.add(keras.layers.Dense(1, activation="sigmoid"))
    network.compile(optimizer="adam", loss="binary_crossentropy")

and

    vectorize = keras.layers.TextVectorization(max_tokens=20000, output_sequence_length=100)
    network = keras.Sequential([keras.layers.Embedding(20000, 32), keras.layers.LSTM(8)])
    network.compile(optimizer="adam", loss="mse")

A dictionary whose numbers begin with 0:

    vocab = {"<pad>": 0}
    for word in ["a", "b", "a"]:
        if word not in vocab:
            vocab[word] = len(vocab)
    layer = nn.Embedding(len(vocab), 32, padding_idx=0)
    optimizer = torch.optim.Adam(layer.parameters())

## When it is fine

With `num_words` the tokenizer leaves out the words with that number and higher ones:

    from tensorflow.keras.preprocessing.text import Tokenizer

    tokenizer = Tokenizer(num_words=1000)
    tokenizer.fit_on_texts(texts)
    network = keras.Sequential([keras.layers.Embedding(len(tokenizer.word_index), 32)])
    network.compile(optimizer="adam", loss="mse")

## Fix

None: the sizes of other arrays, such as a matrix of pretrained vectors, have to change with it.

## References

Keras 2 documentation, `Tokenizer`: "0 is a reserved index that won't be assigned to any word".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import keras_misuse, short_vocabularies, word_numbers
from lintrain.rule import Finding, Level, Pipeline, Related, Rule


class ShortEmbedding(Rule):
    level = Level.ERROR
    keywords = "word_index|max_tokens|num_words|Tokenizer|TextVectorization|enumerate|len & Embedding"
    needs_training = False
    judges_networks = True

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for found in keras_misuse.short_embeddings(pipeline.source):
            yield self.finding(
                found.location,
                "the last word has no row: the numbers of `word_index` begin with 1",
                related=[Related(found.counted, "the words are counted here", "size")]
                if found.counted != found.location
                else [],
                help=f"write one row more: `{found.size} + 1`",
            )
        for short in short_vocabularies.too_few_rows(pipeline.source):
            yield self.finding(
                short.location,
                f"the embedding has {short.rows} rows, and the texts have numbers up to {short.numbers - 1}",
                related=[Related(short.counted, "so many words are kept", "size")],
                help=f"give it {short.numbers} rows",
            )
        for late in word_numbers.short_sizes(pipeline.source):
            shown = f"`{late.vocabulary}`" if len(late.vocabulary) <= SHOWN else "this dictionary"
            yield self.finding(
                late.location,
                _message(late.missing, shown),
                related=[Related(late.numbered, "the words get their numbers here", "numbers")],
                help=f"write {'one row' if late.missing == 1 else f'{late.missing} rows'} more: "
                f"`{late.size} + {late.missing}`",
            )


SHOWN = 24
"""So many characters of code fit into a message."""


def _message(missing: int, shown: str) -> str:
    if missing == 1:
        return f"the last word has no row: the numbers of {shown} go up to its length"
    return f"the last {missing} words have no row: the numbers of {shown} are too high"
