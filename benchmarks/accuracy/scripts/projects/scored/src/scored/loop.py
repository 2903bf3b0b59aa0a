"""Training with a mean squared error."""

import torch
from torch.nn.functional import mse_loss


class Loop:
    def __init__(self, model, optimizer, scheduler=None) -> None:
        self.model = model
        self.optimizer = optimizer
        self.scheduler = scheduler

    def epoch(self, loader) -> float:
        self.model.train()
        losses = []
        for batch in loader:
            scores = batch.pop("scores")
            loss = mse_loss(self.model(**batch), scores)
            self.optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            if self.scheduler is not None:
                self.scheduler.step()
            losses.append(loss.item())
        return sum(losses) / len(losses)
