# %% [markdown]
# # Teach a tiny chat model to answer sums
# Only the answers count for the loss; the questions are masked.

# %%
import random

import numpy as np
import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    DataCollatorForSeq2Seq,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    set_seed,
)

set_seed(21)

# %%
words = [str(i) for i in range(20)] + ["what", "is", "plus", "minus", "it", "please", "so"]
special = ["<pad>", "<unk>", "<user>", "<bot>", "<end>"]
vocab = {w: i for i, w in enumerate(special + words)}
raw = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=raw, pad_token="<pad>", unk_token="<unk>", eos_token="<end>", additional_special_tokens=["<user>", "<bot>"]
)
tokenizer.chat_template = (
    "{% for m in messages %}"
    "{{ ' <user> ' if m['role'] == 'user' else ' <bot> ' }}{{ m['content'] }}{{ ' <end>' if m['role'] == 'assistant' else '' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ ' <bot> ' }}{% endif %}"
)

# %%
rng = random.Random(21)


def make_chat():
    messages = []
    for _ in range(rng.randint(1, 2)):
        a, b = rng.randrange(10), rng.randrange(10)
        messages.append({"role": "user", "content": f"what is {a} plus {b} please"})
        messages.append({"role": "assistant", "content": f"it is {a + b}"})
    return messages


chats = [make_chat() for _ in range(200)]
train_chats, valid_chats = chats[:170], chats[170:]

# %%
MAX_LENGTH = 48


def encode(messages):
    input_ids, labels = [], []
    for message in messages:
        ids = tokenizer.apply_chat_template([message], tokenize=True, return_dict=True)["input_ids"]
        if message["role"] == "assistant":
            # the first token only names the speaker
            labels += [-100] + ids[1:]
        else:
            labels += [-100] * len(ids)
        input_ids += ids
    input_ids, labels = input_ids[:MAX_LENGTH], labels[:MAX_LENGTH]
    return {"input_ids": input_ids, "attention_mask": [1] * len(input_ids), "labels": labels}


train_set = Dataset.from_list([encode(c) for c in train_chats])
valid_set = Dataset.from_list([encode(c) for c in valid_chats])
print(tokenizer.decode(train_set[0]["input_ids"]))

# %%
config = LlamaConfig(
    vocab_size=len(tokenizer),
    hidden_size=48,
    intermediate_size=96,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=MAX_LENGTH + 8,
    pad_token_id=tokenizer.pad_token_id,
    eos_token_id=tokenizer.eos_token_id,
)
model = LlamaForCausalLM(config)
collator = DataCollatorForSeq2Seq(tokenizer, padding=True, label_pad_token_id=-100)


def keep_argmax(logits, labels):
    return logits.argmax(dim=-1)


def token_accuracy(prediction):
    predicted, labels = prediction.predictions, prediction.label_ids
    predicted, labels = predicted[:, :-1], labels[:, 1:]
    mask = labels != -100
    return {"token_accuracy": float(np.mean(predicted[mask] == labels[mask]))}


# %%
args = TrainingArguments(
    output_dir="tiny-chat",
    num_train_epochs=2,
    per_device_train_batch_size=16,
    per_device_eval_batch_size=16,
    learning_rate=3e-3,
    lr_scheduler_type="cosine",
    warmup_steps=5,
    weight_decay=0.01,
    logging_steps=10,
    eval_strategy="epoch",
    save_strategy="epoch",
    save_total_limit=1,
    load_best_model_at_end=True,
    metric_for_best_model="token_accuracy",
    greater_is_better=True,
    use_cpu=not torch.cuda.is_available(),
    report_to="none",
    seed=21,
)
trainer = Trainer(
    model=model,
    args=args,
    train_dataset=train_set,
    eval_dataset=valid_set,
    data_collator=collator,
    processing_class=tokenizer,
    compute_metrics=token_accuracy,
    preprocess_logits_for_metrics=keep_argmax,
)
trainer.train()
trainer.evaluate()

# %%
model.eval()
question = [{"role": "user", "content": "what is 4 plus 5 please"}]
inputs = tokenizer.apply_chat_template(question, add_generation_prompt=True, return_tensors="pt", return_dict=True).to(model.device)
with torch.no_grad():
    answer = model.generate(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], max_new_tokens=5, do_sample=False)
print(tokenizer.decode(answer[0, inputs["input_ids"].shape[1]:], skip_special_tokens=True))
