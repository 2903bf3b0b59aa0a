"""The next letter of a text: an LSTM whose state is carried on, but not its graph."""

import torch
from torch import nn

TEXT = "the sea is wide and the night is long and the wind is cold " * 12
WINDOW = 20

torch.manual_seed(6)
letters = sorted(set(TEXT))
codes = torch.tensor([letters.index(letter) for letter in TEXT])


class Letters(nn.Module):
    def __init__(self, count, width=32):
        super().__init__()
        self.embedding = nn.Embedding(count, width)
        self.lstm = nn.LSTM(width, width, batch_first=True)
        self.output = nn.Linear(width, count)

    def forward(self, ids, state=None):
        hidden, state = self.lstm(self.embedding(ids), state)
        return self.output(hidden), state


model = Letters(len(letters))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

for epoch in range(3):
    model.train()
    state, losses = None, []
    for start in range(0, len(codes) - WINDOW - 1, WINDOW):
        inputs = codes[start : start + WINDOW].unsqueeze(0)
        targets = codes[start + 1 : start + WINDOW + 1].unsqueeze(0)
        optimizer.zero_grad()
        logits, state = model(inputs, state)
        loss = criterion(logits.view(-1, len(letters)), targets.view(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        state = tuple(part.detach() for part in state)
        losses.append(loss.item())
    print(f"epoch {epoch}: {sum(losses) / len(losses):.3f}")

torch.save(model.state_dict(), "letters.pt")
