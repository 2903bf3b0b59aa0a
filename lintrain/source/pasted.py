"""Which texts are pieces of scripts, as people paste them: training without a single import.

Decided by content alone, for a file, a notebook or standard input, before anything is parsed. A script that forgot one
of its imports is no piece: the name that it lacks is a mistake at its place.
"""

from __future__ import annotations

import re

from lintrain.startup.lazy_pattern import lazy_pattern

IMPORT = r'^[ \t]*"?(?:from[ \t]+[\w.]+[ \t]+import\b|import[ \t]+\w)'
"""An import at the head of a line; in the JSON of a notebook a quote stands before it."""

ACT = (
    r"\b(?:DataLoader|GradScaler|LoraConfig|TensorDataset|TrainingArguments|Variable|get_peft_model|load_dataset)\b"
    r"|\b\w*Trainer\("
    r"|\b(?:nn|F|optim|torch|tf|keras|layers|transformers)\.[A-Za-z]"
    r"|\bcriterion\w*\(|\.eval\(\)|\bdef forward\(self\b|\.(?:load_)?state_dict\("
    r"|\.(?:backward|cross_entropy|cuda|detach|from_pretrained|no_grad|permute|train_on_batch|unsqueeze|view|zero_grad)\("
    r"|\.(?:compile|fit)\([^()]*\b(?:batch_size|callbacks|epochs|loss|metrics|optimizer|validation_\w+) *="
    r"|\b(?:opt|optim|optimi[sz]er|scheduler)\w*\.step\("
    r"|\brequires_grad\b"
    r"|\.compile\( *[\"']\w+[\"'] *,|\btfds\.load\("
    r"|\b(?:Conv2D|Dense|(?:Count|Tfidf)Vectorizer|(?:Label|OneHot)Encoder|(?:MinMax|Robust|Standard)Scaler)\("
    r"|\b(?:train_test_split|fit_resample)\("
    r"|\bdef (?:configure_optimizers|training_step|validation_step)\(self\b|\bself\.log\([^\n]*\bon_(?:epoch|step) *="
    r"|\.load_from_checkpoint\("
    r"|\b(?:Accelerator|CrossEncoder|DataCollator\w*|InputExample|SentenceTransformer|tokenizer)\("
    r"|\baccelerator\.[a-z]|\bdef compute_metrics\(|\.map\([^()]*\bbatched *=|\btokenizer\.\w+_token = "
    r"|\.apply_chat_template\("
)
"""What only code that trains says."""

IMPORT_IN_BYTES = lazy_pattern(IMPORT.encode(), re.MULTILINE)
ACT_IN_BYTES = lazy_pattern(ACT.encode())
IMPORT_IN_TEXT = lazy_pattern(IMPORT, re.MULTILINE)
ACT_IN_TEXT = lazy_pattern(ACT)


def is_pasted(text: str) -> bool:
    """Whether a text is a piece of a training script: it has no import, and says what only such a script says."""
    return IMPORT_IN_TEXT.search(text) is None and ACT_IN_TEXT.search(text) is not None


def may_be_pasted(raw: bytes) -> bool:
    """The same question about the bytes of a file; most files answer it with their first import."""
    return IMPORT_IN_BYTES.search(raw) is None and ACT_IN_BYTES.search(raw) is not None
