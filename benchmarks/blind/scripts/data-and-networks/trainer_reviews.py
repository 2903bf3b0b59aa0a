"""Fine-tune a small encoder on short reviews."""
import re

import numpy as np
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DataCollatorWithPadding,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    set_seed,
)

set_seed(42)

GOOD = ["great", "lovely", "superb", "warm", "excellent", "tasty"]
BAD = ["awful", "cold", "stale", "rude", "terrible", "slow"]
REST = "the food was and service at this place with my friends last night we came again for dinner".split()


def make_reviews(n, seed):
    rng = np.random.default_rng(seed)
    texts, stars = [], []
    for _ in range(n):
        star = int(rng.choice([1, 2, 4, 5]))
        words = list(rng.choice(REST, size=int(rng.integers(6, 16))))
        pool = GOOD if star > 3 else BAD
        for _ in range(2):
            words.insert(int(rng.integers(3, len(words) + 1)), str(rng.choice(pool)))
        texts.append(" ".join(words).capitalize() + f"! <br /> {rng.integers(100)}")
        stars.append(star)
    return texts, stars


def clean(text):
    text = re.sub(r"<[^>]+>", " ", text.lower())
    text = re.sub(r"[^a-z ]", " ", text)
    return re.sub(r"\s+", " ", text).strip()


def build_tokenizer(texts):
    tok = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    tok.pre_tokenizer = pre_tokenizers.Whitespace()
    tok.train_from_iterator(texts, trainers.WordLevelTrainer(special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"]))
    tok.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", tok.token_to_id("[CLS]")), ("[SEP]", tok.token_to_id("[SEP]"))]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tok, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]")


def build_split(n, seed):
    texts, stars = make_reviews(n, seed)
    labels = [int(star > 3) for star in stars]
    return Dataset.from_dict({"text": [clean(t) for t in texts], "label": labels})


train = build_split(320, 0)
valid = build_split(80, 1)
tokenizer = build_tokenizer(train["text"])


def encode(batch):
    return tokenizer(batch["text"], truncation=True, max_length=32)


train = train.map(encode, batched=True, remove_columns=["text"])
valid = valid.map(encode, batched=True, remove_columns=["text"])

config = BertConfig(
    vocab_size=len(tokenizer),
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    max_position_embeddings=64,
    num_labels=2,
    pad_token_id=tokenizer.pad_token_id,
)
model = BertForSequenceClassification(config)


def compute_metrics(eval_pred):
    logits, labels = eval_pred
    predicted = np.argmax(logits, axis=-1)
    return {"accuracy": float((predicted == labels).mean())}


args = TrainingArguments(
    output_dir="reviews-out",
    num_train_epochs=2,
    per_device_train_batch_size=16,
    per_device_eval_batch_size=32,
    learning_rate=1e-3,
    warmup_steps=4,
    eval_strategy="epoch",
    save_strategy="no",
    logging_steps=10,
    report_to="none",
    seed=42,
)
trainer = Trainer(
    model=model,
    args=args,
    train_dataset=train,
    eval_dataset=valid,
    data_collator=DataCollatorWithPadding(tokenizer),
    compute_metrics=compute_metrics,
)
trainer.train()
print(trainer.evaluate())
