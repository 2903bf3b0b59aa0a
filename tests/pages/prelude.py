"""What the examples of rule pages may use without defining it; see README.md beside this file.

Never run or imported as a whole: `assembly` takes out of it what one example needs, in this order.
"""

# ruff: noqa
# mypy: ignore-errors
import os
import random

import accelerate
import datasets
import evaluate
import keras
import lightning as L
import numpy as np
import peft
import sklearn.metrics
import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
import trl
from accelerate import Accelerator
from datasets import (
    ClassLabel,
    Dataset,
    DatasetDict,
    Features,
    Value,
    concatenate_datasets,
    load_dataset,
    load_from_disk,
)
from peft import LoraConfig, PeftModel, TaskType, get_peft_model
from sklearn.metrics import accuracy_score, f1_score, precision_score, recall_score, roc_auc_score
from torch.optim import SGD, Adam, AdamW
from torch.utils.data import DataLoader, TensorDataset
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    DataCollatorForSeq2Seq,
    DataCollatorForTokenClassification,
    DataCollatorWithPadding,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    default_data_collator,
    get_linear_schedule_with_warmup,
    get_scheduler,
    set_seed,
)
from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

device = "cuda" if torch.cuda.is_available() else "cpu"
epochs = 1

# fine-tuning a classifier with Trainer
checkpoint = "distilbert-base-uncased"
tokenizer = AutoTokenizer.from_pretrained("distilbert-base-uncased")
raw = load_dataset("glue", "mnli")


def tokenize(batch):
    return tokenizer(batch["premise"], batch["hypothesis"], truncation=True)


def tokenize_rows(rows):
    premises, hypotheses = [row["premise"] for row in rows], [row["hypothesis"] for row in rows]
    batch = tokenizer(premises, hypotheses, truncation=True, padding=True, return_tensors="pt")
    return batch | {"labels": torch.tensor([row["label"] for row in rows])}


tokenized = raw.map(tokenize, batched=True)
model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
args = TrainingArguments("out")
collator = DataCollatorWithPadding(tokenizer)
metric = evaluate.load("accuracy")


def compute_metrics(prediction):
    logits, labels = prediction
    return metric.compute(predictions=np.argmax(logits, axis=-1), references=labels)


# the same in a loop of one's own: batches of input_ids, attention_mask and labels
columns = tokenized.remove_columns(["premise", "hypothesis", "idx"]).rename_column("label", "labels")
train_loader = DataLoader(columns["train"], batch_size=32, shuffle=True, collate_fn=collator)
eval_loader = DataLoader(columns["validation_matched"], batch_size=32, collate_fn=collator)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
batch = next(iter(train_loader))

# a plain network: features float32 [96, 8], targets int64 [96] of three classes
features = torch.randn(96, 8, generator=torch.Generator().manual_seed(0))
targets = features.abs().argmax(dim=1) % 3
net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 3))
criterion = nn.CrossEntropyLoss()
loader = DataLoader(TensorDataset(features, targets), batch_size=16)
# where an example speaks of `net`, these names mean its optimizer and data
optimizer = torch.optim.Adam(net.parameters())
train_loader = DataLoader(TensorDataset(features, targets), batch_size=16, shuffle=True)
eval_loader = DataLoader(TensorDataset(features * 0.9, targets), batch_size=32)

# Keras: x float32 [96, 8], y int64 [96] of three classes
x_train = np.random.default_rng(0).normal(size=(96, 8)).astype("float32")
y_train = np.abs(x_train).argmax(axis=1) % 3
x_val = np.random.default_rng(1).normal(size=(32, 8)).astype("float32")
y_val = np.abs(x_val).argmax(axis=1) % 3

# language models
text = load_dataset("wikitext", "wikitext-2-raw-v1")
lm_tokenizer = AutoTokenizer.from_pretrained("gpt2")
lm = AutoModelForCausalLM.from_pretrained("gpt2")
