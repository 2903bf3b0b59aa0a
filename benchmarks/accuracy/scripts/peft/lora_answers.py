"""LoRA on a causal model, only the answer is scored: the prompt is masked in the labels."""

import torch
from datasets import Dataset
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForSeq2Seq, Trainer, TrainingArguments

CHECKPOINT = "meta-llama/Llama-3.2-1B"
rows = Dataset.from_list(
    [{"question": f"what is {one} plus {other}?", "answer": str(one + other)} for one in range(6) for other in range(6)]
)

tokenizer = AutoTokenizer.from_pretrained(CHECKPOINT, add_bos_token=True)
model = AutoModelForCausalLM.from_pretrained(CHECKPOINT, dtype=torch.float32)
if tokenizer.pad_token is None:
    tokenizer.add_special_tokens({"pad_token": "<|pad|>"})
    model.resize_token_embeddings(len(tokenizer))


def encode(row):
    prompt = tokenizer(f"Question: {row['question']}\nAnswer: ")["input_ids"]
    answer = tokenizer(row["answer"] + tokenizer.eos_token, add_special_tokens=False)["input_ids"]
    return {
        "input_ids": prompt + answer,
        "attention_mask": [1] * (len(prompt) + len(answer)),
        "labels": [-100] * len(prompt) + answer,
    }


encoded = rows.shuffle(seed=7).map(encode, remove_columns=rows.column_names).train_test_split(test_size=0.2, seed=7)
config = LoraConfig(
    task_type="CAUSAL_LM",
    r=4,
    lora_alpha=8,
    target_modules=["q_proj", "v_proj"],
    modules_to_save=["embed_tokens", "lm_head"],
)
model = get_peft_model(model, config)

trainer = Trainer(
    model=model,
    args=TrainingArguments(
        "answers", learning_rate=2e-4, num_train_epochs=1, eval_strategy="epoch", save_strategy="epoch"
    ),
    train_dataset=encoded["train"],
    eval_dataset=encoded["test"],
    data_collator=DataCollatorForSeq2Seq(tokenizer, padding=True),
)
trainer.train()
trainer.save_model("answers/adapter")
