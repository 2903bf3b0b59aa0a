"""Instructions with SFTTrainer and an adapter."""

import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoTokenizer
from trl import SFTConfig, SFTTrainer

rows = Dataset.from_list(
    [
        {"prompt": f"Name a number above {number}.", "completion": f" {number + 1} is above {number}."}
        for number in range(40)
    ]
)
parts = rows.train_test_split(test_size=0.2, seed=1)
tokenizer = AutoTokenizer.from_pretrained("gpt2")

config = SFTConfig(
    output_dir="instructions",
    max_length=64,
    learning_rate=2e-4,
    num_train_epochs=1,
    per_device_train_batch_size=4,
    eval_strategy="epoch",
    save_strategy="epoch",
    bf16=torch.cuda.is_available(),
    report_to="none",
)
trainer = SFTTrainer(
    model="gpt2",
    args=config,
    train_dataset=parts["train"],
    eval_dataset=parts["test"],
    processing_class=tokenizer,
    peft_config=LoraConfig(task_type="CAUSAL_LM", r=8, target_modules=["c_attn"]),
)
trainer.train()
trainer.save_model("instructions/final")
