"""LoRA on a classifier: the task type says that the new head learns too."""

from datasets import load_dataset
from peft import LoraConfig, TaskType, get_peft_model
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
)

tokenizer = AutoTokenizer.from_pretrained("roberta-base")
opinions = load_dataset("glue", "sst2")
opinions = opinions.map(lambda rows: tokenizer(rows["sentence"], truncation=True, max_length=64), batched=True)

model = AutoModelForSequenceClassification.from_pretrained("roberta-base", num_labels=2)
config = LoraConfig(task_type=TaskType.SEQ_CLS, r=8, lora_alpha=16, lora_dropout=0.1, target_modules=["query", "value"])
model = get_peft_model(model, config)
model.print_trainable_parameters()

trainer = Trainer(
    model=model,
    args=TrainingArguments(
        output_dir="lora",
        learning_rate=1e-3,
        num_train_epochs=1,
        per_device_train_batch_size=8,
        eval_strategy="epoch",
        save_strategy="epoch",
    ),
    train_dataset=opinions["train"],
    eval_dataset=opinions["validation"],
    data_collator=DataCollatorWithPadding(tokenizer),
    processing_class=tokenizer,
)
trainer.train()
model.save_pretrained("lora/adapter")
