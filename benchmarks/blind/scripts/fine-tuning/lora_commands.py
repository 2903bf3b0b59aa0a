"""LoRA on a small Llama for turning requests into commands (research code, tiny configuration by default)."""
import itertools
import random

import torch
from peft import LoraConfig, get_peft_model
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.utils.data import DataLoader
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, get_cosine_schedule_with_warmup

ROOMS = ["kitchen", "bedroom", "garage", "office", "hall", "attic"]
DEVICES = ["lamp", "heater", "fan", "radio", "camera"]
VERBS = {"start": "on", "enable": "on", "stop": "off", "disable": "off"}
SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]


def make_pairs():
    pairs = []
    for (verb, state), room, device in itertools.product(VERBS.items(), ROOMS, DEVICES):
        pairs.append((f"please {verb} the {device} in the {room} =>", f"set {room} {device} {state}"))
    return pairs


def make_tokenizer(pairs):
    words = sorted({w for pair in pairs for side in pair for w in side.split()})
    vocab = {w: i for i, w in enumerate(SPECIAL + words)}
    core = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


class CompletionCollator:
    def __init__(self, tokenizer, ignore_index=-100):
        self.tokenizer = tokenizer
        self.ignore_index = ignore_index

    def encode(self, prompt, answer):
        tok = self.tokenizer
        source = [tok.bos_token_id] + tok(prompt, add_special_tokens=False).input_ids
        target = tok(answer, add_special_tokens=False).input_ids + [tok.eos_token_id]
        return source + target, [self.ignore_index] * len(source) + target

    def __call__(self, pairs):
        rows = [self.encode(p, a) for p, a in pairs]
        width = max(len(ids) for ids, _ in rows)
        input_ids, attention_mask, labels = [], [], []
        for ids, label in rows:
            gap = width - len(ids)
            input_ids.append(ids + [self.tokenizer.pad_token_id] * gap)
            attention_mask.append([1] * len(ids) + [0] * gap)
            labels.append(label + [self.ignore_index] * gap)
        return {
            "input_ids": torch.tensor(input_ids),
            "attention_mask": torch.tensor(attention_mask),
            "labels": torch.tensor(labels),
        }


class Runner:
    def __init__(self, seed=11, epochs=6, batch_size=8, lr=2e-2):
        random.seed(seed)
        torch.manual_seed(seed)
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.epochs = epochs

        pairs = make_pairs()
        random.shuffle(pairs)
        self.tokenizer = make_tokenizer(pairs)
        self.train_pairs, self.dev_pairs = pairs[:96], pairs[96:]
        self.collator = CompletionCollator(self.tokenizer)
        self.train_loader = DataLoader(self.train_pairs, batch_size=batch_size, shuffle=True, collate_fn=self.collator)
        self.dev_loader = DataLoader(self.dev_pairs, batch_size=batch_size, collate_fn=self.collator)

        config = LlamaConfig(
            vocab_size=len(self.tokenizer),
            hidden_size=48,
            intermediate_size=96,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=64,
            pad_token_id=self.tokenizer.pad_token_id,
            bos_token_id=self.tokenizer.bos_token_id,
            eos_token_id=self.tokenizer.eos_token_id,
        )
        base = LlamaForCausalLM(config)
        lora = LoraConfig(
            task_type="CAUSAL_LM",
            r=8,
            lora_alpha=16,
            lora_dropout=0.05,
            target_modules=["q_proj", "k_proj", "v_proj", "o_proj"],
            modules_to_save=["embed_tokens", "lm_head"],
        )
        self.model = get_peft_model(base, lora).to(self.device)
        trainable = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(trainable, lr=lr, weight_decay=0.0)
        total = epochs * len(self.train_loader)
        self.scheduler = get_cosine_schedule_with_warmup(self.optimizer, num_warmup_steps=total // 10, num_training_steps=total)

    def train_epoch(self):
        self.model.train()
        total = 0.0
        for batch in self.train_loader:
            batch = {k: v.to(self.device) for k, v in batch.items()}
            self.optimizer.zero_grad()
            loss = self.model(**batch).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.scheduler.step()
            total += loss.item()
        return total / len(self.train_loader)

    @torch.no_grad()
    def dev_loss(self):
        self.model.eval()
        loss_sum, tokens = 0.0, 0
        for batch in self.dev_loader:
            batch = {k: v.to(self.device) for k, v in batch.items()}
            n = (batch["labels"][:, 1:] != -100).sum().item()
            loss_sum += self.model(**batch).loss.item() * n
            tokens += n
        return loss_sum / tokens

    @torch.no_grad()
    def answer(self, prompts):
        self.model.eval()
        self.tokenizer.padding_side = "left"
        texts = [self.tokenizer.bos_token + " " + p for p in prompts]
        enc = self.tokenizer(texts, padding=True, add_special_tokens=False, return_token_type_ids=False, return_tensors="pt")
        enc = enc.to(self.device)
        out = self.model.generate(**enc, max_new_tokens=8, do_sample=False)
        return self.tokenizer.batch_decode(out[:, enc.input_ids.shape[1] :], skip_special_tokens=True)

    def run(self):
        for epoch in range(self.epochs):
            train = self.train_epoch()
            print(f"epoch {epoch} train {train:.3f} dev {self.dev_loss():.3f}")
        prompts = [p for p, _ in self.dev_pairs]
        hits = sum(got.strip() == want for got, (_, want) in zip(self.answer(prompts), self.dev_pairs))
        print("exact match", hits / len(prompts))
        self.model.save_pretrained("command_adapter")


if __name__ == "__main__":
    Runner().run()
