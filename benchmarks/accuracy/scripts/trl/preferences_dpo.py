"""Preferences with DPOTrainer: a better and a worse answer for each prompt."""

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
tokenizer.add_special_tokens({"pad_token": "<pad>"})
model = AutoModelForCausalLM.from_pretrained("gpt2")
model.resize_token_embeddings(len(tokenizer))

trainer = DPOTrainer(
    model=model,
    args=DPOConfig(
        output_dir="preferences", beta=0.1, max_length=64, max_steps=3, per_device_train_batch_size=4, report_to="none"
    ),
    train_dataset=rows,
    processing_class=tokenizer,
)
trainer.train()
trainer.save_model("preferences/final")
