"""Preferences with DPOTrainer: a better and a worse answer for each prompt."""

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import DPOConfig, DPOTrainer

rows = Dataset.from_list(
    [
        {"prompt": f"Count to {number}.", "chosen": f" {list(range(1, number))}", "rejected": " No."}
        for number in range(2, 26)
    ]
)
tokenizer = AutoTokenizer.from_pretrained("gpt2")
tokenizer.pad_token = tokenizer.eos_token
model = AutoModelForCausalLM.from_pretrained("gpt2")

trainer = DPOTrainer(
    model=model,
    args=DPOConfig(
        output_dir="preferences",
        beta=0.1,
        max_length=64,
        max_steps=3,
        per_device_train_batch_size=4,
        bf16=torch.cuda.is_available(),
        report_to="none",
    ),
    train_dataset=rows,
    processing_class=tokenizer,
)
trainer.train()
trainer.save_model("preferences/final")
