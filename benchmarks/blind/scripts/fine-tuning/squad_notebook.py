#!/usr/bin/env python
# coding: utf-8

# # Question answering on SQuAD

# In[1]:


import collections

import evaluate
import numpy as np
from datasets import load_dataset
from transformers import AutoModelForQuestionAnswering, AutoTokenizer, Trainer, TrainingArguments, default_data_collator, set_seed

set_seed(0)


# In[2]:


model_checkpoint = "distilbert-base-uncased"
batch_size = 16
max_length = 384
doc_stride = 128

squad = load_dataset("squad")
tokenizer = AutoTokenizer.from_pretrained(model_checkpoint)


# In[3]:


def prepare_train_features(examples):
    questions = [q.lstrip() for q in examples["question"]]
    tokenized = tokenizer(
        questions,
        examples["context"],
        truncation="only_second",
        max_length=max_length,
        stride=doc_stride,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        padding="max_length",
    )
    sample_mapping = tokenized.pop("overflow_to_sample_mapping")
    offset_mapping = tokenized.pop("offset_mapping")

    tokenized["start_positions"] = []
    tokenized["end_positions"] = []
    for i, offsets in enumerate(offset_mapping):
        cls_index = tokenized["input_ids"][i].index(tokenizer.cls_token_id)
        sequence_ids = tokenized.sequence_ids(i)
        answers = examples["answers"][sample_mapping[i]]
        start_char = answers["answer_start"][0]
        end_char = start_char + len(answers["text"][0])

        first = 0
        while sequence_ids[first] != 1:
            first += 1
        last = len(sequence_ids) - 1
        while sequence_ids[last] != 1:
            last -= 1

        if offsets[first][0] > start_char or offsets[last][1] < end_char:
            tokenized["start_positions"].append(cls_index)
            tokenized["end_positions"].append(cls_index)
        else:
            start = first
            while start <= last and offsets[start][0] <= start_char:
                start += 1
            tokenized["start_positions"].append(start - 1)
            end = last
            while end >= first and offsets[end][1] >= end_char:
                end -= 1
            tokenized["end_positions"].append(end + 1)
    return tokenized


# In[4]:


def prepare_validation_features(examples):
    questions = [q.lstrip() for q in examples["question"]]
    tokenized = tokenizer(
        questions,
        examples["context"],
        truncation="only_second",
        max_length=max_length,
        stride=doc_stride,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        padding="max_length",
    )
    sample_mapping = tokenized.pop("overflow_to_sample_mapping")
    tokenized["example_id"] = [examples["id"][i] for i in sample_mapping]
    for i in range(len(tokenized["input_ids"])):
        sequence_ids = tokenized.sequence_ids(i)
        tokenized["offset_mapping"][i] = [o if sequence_ids[k] == 1 else None for k, o in enumerate(tokenized["offset_mapping"][i])]
    return tokenized


train_set = squad["train"].map(prepare_train_features, batched=True, remove_columns=squad["train"].column_names)
val_features = squad["validation"].map(prepare_validation_features, batched=True, remove_columns=squad["validation"].column_names)


# In[5]:


model = AutoModelForQuestionAnswering.from_pretrained(model_checkpoint)
args = TrainingArguments(
    output_dir="distilbert-squad",
    learning_rate=3e-5,
    per_device_train_batch_size=batch_size,
    per_device_eval_batch_size=64,
    num_train_epochs=2,
    weight_decay=0.01,
    warmup_steps=500,
    save_strategy="epoch",
    fp16=True,
)
trainer = Trainer(model=model, args=args, train_dataset=train_set, data_collator=default_data_collator, processing_class=tokenizer)
trainer.train()


# In[6]:


raw_predictions = trainer.predict(val_features.remove_columns(["example_id", "offset_mapping"]))
start_logits, end_logits = raw_predictions.predictions

features_of = collections.defaultdict(list)
for idx, example_id in enumerate(val_features["example_id"]):
    features_of[example_id].append(idx)
offsets_of = val_features["offset_mapping"]

n_best = 20
max_answer_length = 30
predictions = []
for example in squad["validation"]:
    best = {"text": "", "score": -1e9}
    for idx in features_of[example["id"]]:
        starts, ends, offsets = start_logits[idx], end_logits[idx], offsets_of[idx]
        for s in np.argsort(starts)[-1 : -n_best - 1 : -1]:
            for e in np.argsort(ends)[-1 : -n_best - 1 : -1]:
                if offsets[s] is None or offsets[e] is None or e < s or e - s + 1 > max_answer_length:
                    continue
                score = starts[s] + ends[e]
                if score > best["score"]:
                    best = {"text": example["context"][offsets[s][0] : offsets[e][1]], "score": score}
    predictions.append({"id": example["id"], "prediction_text": best["text"]})

references = [{"id": ex["id"], "answers": ex["answers"]} for ex in squad["validation"]]
print(evaluate.load("squad").compute(predictions=predictions, references=references))
