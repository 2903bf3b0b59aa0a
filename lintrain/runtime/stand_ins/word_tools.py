"""Data of NLTK that was not downloaded: sentences, words and stop words by simple rules."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

from lintrain.evidence.run import StandInKind
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.stand_ins.ledger import Ledger

STOP_WORDS = (
    "a",
    "an",
    "and",
    "are",
    "as",
    "at",
    "by",
    "for",
    "from",
    "in",
    "is",
    "it",
    "of",
    "on",
    "or",
    "that",
    "the",
    "to",
)
SENTENCE = re.compile(r"(?<=[.!?])\s+")
WORD = re.compile(r"\w+|[^\w\s]")


def install(ledger: Ledger, hooks: AfterImport) -> None:
    """Answer the functions that look for a file of NLTK's data."""
    hooks.add("nltk.tokenize", functools.partial(_answer_tokenizers, ledger))
    hooks.add("nltk.corpus", functools.partial(_answer_corpora, ledger))
    hooks.add("nltk.stem.wordnet", functools.partial(_answer_lemmas, ledger))


def _sentences(text: str, *_: Any, **__: Any) -> list[str]:
    return SENTENCE.split(text.strip())


def _words(text: str, *_: Any, **__: Any) -> list[str]:
    return WORD.findall(text)


def _lemma(_: Any, word: str, *__: Any, **___: Any) -> str:
    return word


def _instead(ledger: Ledger, name: str, original: Callable[..., Any], simple: Callable[..., Any]) -> Any:
    """A function that needs data of NLTK, and a simple one where the data is not here."""

    @functools.wraps(original)
    def answered(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        except LookupError as error:
            # These two are lookup errors as well, but of the script's own dictionaries and lists.
            if isinstance(error, KeyError | IndexError):
                raise
            ledger.replace(StandInKind.DATA, f"nltk {name}", "a simple rule: its data was not downloaded")
            return simple(*args, **kwargs)

    return answered


def _answer_tokenizers(ledger: Ledger, module: Any) -> None:
    module.sent_tokenize = _instead(ledger, "sent_tokenize", module.sent_tokenize, _sentences)
    module.word_tokenize = _instead(ledger, "word_tokenize", module.word_tokenize, _words)


def _answer_lemmas(ledger: Ledger, module: Any) -> None:
    owner = module.WordNetLemmatizer
    owner.lemmatize = _instead(ledger, "WordNetLemmatizer", owner.lemmatize, _lemma)


def _answer_corpora(ledger: Ledger, module: Any) -> None:
    module.stopwords = StopWords(ledger, module.stopwords)


class StopWords:
    """The corpus of stop words, which is read when it is first asked for."""

    def __init__(self, ledger: Ledger, corpus: Any) -> None:
        self._ledger = ledger
        self._corpus = corpus

    def words(self, *languages: Any, **given: Any) -> Sequence[str]:
        """The stop words of a language; a few English ones where the corpus is not here."""
        found: Sequence[str] = _instead(
            self._ledger, "stopwords", lambda: self._corpus.words(*languages, **given), lambda: [*STOP_WORDS]
        )()
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._corpus, name)
