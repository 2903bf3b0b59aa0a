"""The number of positions of the model that reads the rows of a feed."""

from __future__ import annotations

from lintrain.analysis.special_tokens import certain_facts
from lintrain.analysis.token_feeds import TokenFeed
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.data import Dataset
from lintrain.pipeline.values.python import literal

_LEARNED = frozenset(
    {"albert", "bart", "bert", "camembert", "distilbert", "electra", "gpt2", "gpt_neo", "opt", "roberta", "xlm-roberta"}
)
"""Model types with learned position embeddings."""

_SKIPS_PADDING = frozenset({"camembert", "opt", "roberta", "xlm-roberta"})
"""Model types with learned positions that give padding no position."""

_SHORT = frozenset(
    {
        "ag_news",
        "conll2003",
        "dair-ai/emotion",
        "emotion",
        "fancyzhx/ag_news",
        "glue",
        "multi_nli",
        "nyu-mll/glue",
        "nyu-mll/multi_nli",
        "paws",
        "rotten_tomatoes",
        "snli",
        "sst2",
        "stanfordnlp/snli",
        "stanfordnlp/sst2",
        "trec",
        "tweet_eval",
        "wnut_17",
        "xnli",
    }
)
"""Datasets of sentences, all far shorter than 512 tokens."""


def learned_positions(pipeline: Pipeline, feed: TokenFeed) -> tuple[int | None, str]:
    """The number of learned positions of the model that reads the rows, and the name of its checkpoint."""
    model = feed.model
    if model is not None and (model.config is not None or "config" in model.arguments or not model.is_complete):
        return None, ""
    owner = feed.model or feed.tokenizer
    facts = certain_facts(pipeline, owner) if owner else None
    if owner is None or facts is None or facts.model_type not in _LEARNED:
        return None, ""
    return facts.max_positions, str(literal(owner.checkpoint))


def pads_take_positions(pipeline: Pipeline, feed: TokenFeed) -> bool:
    """Whether padding certainly takes positions in the model, as text does."""
    facts = certain_facts(pipeline, feed.model) if feed.model else None
    return facts is not None and facts.model_type in _LEARNED - _SKIPS_PADDING


def may_be_short(dataset: Dataset | None) -> bool:
    """Whether rows may be short: sentences of a well-known dataset, or rows that the script creates."""
    root = dataset.lineage[-1] if dataset else None
    if root is None:
        return False
    return root.hub_name in _SHORT or root.operations[:1] in {("from_dict",), ("from_list",)}
