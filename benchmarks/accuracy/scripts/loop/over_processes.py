"""A network trained by several processes, each with its share of the rows; started alone it is one process."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def main():
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    else:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    torch.manual_seed(41)
    points = torch.randn(96, 5)
    rows = TensorDataset(points, (points[:, 0] > points[:, 1]).long())
    sampler = DistributedSampler(rows)
    loader = DataLoader(rows, batch_size=12, sampler=sampler)

    network = DistributedDataParallel(nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, 2)))
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(network(x), y)
            loss.backward()
            optimizer.step()
    if dist.get_rank() == 0:
        torch.save(network.module.state_dict(), "shared.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
