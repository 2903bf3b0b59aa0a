"""Pictures of stripes."""

import torch
from torch.utils.data import DataLoader, Dataset


class Stripes(Dataset):
    def __init__(self, count, classes, seed):
        generator = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(0, classes, (count,), generator=generator)
        self.images = torch.rand(count, 1, 9, 9, generator=generator)
        for image, label in zip(self.images, self.labels):
            image[0, :, int(label) :: classes] += 1.0

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.images[index] - 0.5, self.labels[index]


def build_loaders(config):
    train = Stripes(120, config["classes"], seed=1)
    held_out = Stripes(40, config["classes"], seed=2)
    return (
        DataLoader(train, batch_size=config["batch_size"], shuffle=True),
        DataLoader(held_out, batch_size=config["batch_size"]),
    )
