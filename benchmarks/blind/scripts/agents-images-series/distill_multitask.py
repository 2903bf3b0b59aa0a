# Distil a two-head teacher (shape + size) into a small student, made-up tabular data
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split

SEED = 11
NUM_SHAPES, NUM_SIZES = 6, 3
TEMPERATURE = 4.0


def make_data(n=2000, dim=20):
    x = torch.randn(n, dim)
    w_shape, w_size = torch.randn(dim, NUM_SHAPES), torch.randn(dim, NUM_SIZES)
    shape = (torch.tanh(x) @ w_shape).argmax(dim=1)
    size = (x.abs() @ w_size).argmax(dim=1)
    return TensorDataset(x, shape, size)


class MultiHead(nn.Module):
    def __init__(self, dim, width, depth, dropout=0.0):
        super().__init__()
        layers = []
        for i in range(depth):
            layers += [nn.Linear(dim if i == 0 else width, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(dropout)]
        self.trunk = nn.Sequential(*layers)
        self.heads = nn.ModuleList([nn.Linear(width, n) for n in (NUM_SHAPES, NUM_SIZES)])

    def forward(self, x):
        h = self.trunk(x)
        return [head(h) for head in self.heads]


class TaskWeights(nn.Module):
    """Learned uncertainty weights of the two tasks."""

    def __init__(self, n_tasks):
        super().__init__()
        self.log_vars = nn.Parameter(torch.zeros(n_tasks))

    def forward(self, losses):
        total = 0.0
        for i, loss in enumerate(losses):
            total = total + torch.exp(-self.log_vars[i]) * loss + 0.5 * self.log_vars[i]
        return total


def soft_loss(student_logits, teacher_logits, temperature):
    log_p = F.log_softmax(student_logits / temperature, dim=1)
    q = F.softmax(teacher_logits / temperature, dim=1)
    return F.kl_div(log_p, q, reduction="batchmean") * temperature**2


def train_teacher(model, loader, device, epochs):
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    model.train()
    for _ in range(epochs):
        for x, shape, size in loader:
            x, shape, size = x.to(device), shape.to(device), size.to(device)
            shape_logits, size_logits = model(x)
            loss = F.cross_entropy(shape_logits, shape) + F.cross_entropy(size_logits, size)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def train_student(student, teacher, loader, device, epochs, alpha=0.7):
    weights = TaskWeights(2).to(device)
    params = list(student.parameters()) + list(weights.parameters())
    optimizer = torch.optim.Adam(params, lr=2e-3)
    teacher.eval()
    student.train()
    for epoch in range(epochs):
        total = 0.0
        for x, shape, size in loader:
            x, labels = x.to(device), (shape.to(device), size.to(device))
            with torch.no_grad():
                teacher_out = teacher(x)
            student_out = student(x)
            losses = []
            for s, t, y in zip(student_out, teacher_out, labels):
                hard = F.cross_entropy(s, y)
                soft = soft_loss(s, t, TEMPERATURE)
                losses.append(alpha * soft + (1.0 - alpha) * hard)
            loss = weights(losses)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch} distillation loss {total / len(loader):.4f}")


@torch.no_grad()
def accuracy(model, loader, device):
    model.eval()
    correct, count = torch.zeros(2), 0
    for x, shape, size in loader:
        outputs = model(x.to(device))
        for i, (logits, y) in enumerate(zip(outputs, (shape, size))):
            correct[i] += (logits.argmax(dim=1).cpu() == y).sum()
        count += len(x)
    return (correct / count).tolist()


def main():
    torch.manual_seed(SEED)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = make_data()
    train_set, test_set = random_split(data, [1600, 400], generator=torch.Generator().manual_seed(SEED))
    train_loader = DataLoader(train_set, batch_size=64, shuffle=True, drop_last=True)
    test_loader = DataLoader(test_set, batch_size=256)

    teacher = MultiHead(20, 128, 3, dropout=0.2).to(device)
    train_teacher(teacher, train_loader, device, epochs=6)
    print("teacher accuracy", accuracy(teacher, test_loader, device))

    student = MultiHead(20, 24, 1).to(device)
    train_student(student, teacher, train_loader, device, epochs=4)
    print("student accuracy", accuracy(student, test_loader, device))
    torch.save(student.state_dict(), "student.pt")


if __name__ == "__main__":
    main()
