"""A teacher is in train mode, so its answers are random and the student learns from noise.

Dropout stays on in a network whose `eval()` was never called. A student that is compared with it, or a policy that is
compared with a reference model, follows other answers to the same rows in each step. No error is raised.

## Bad

    teacher = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 3))
    teacher.requires_grad_(False)
    student = nn.Linear(8, 3)
    optimizer = torch.optim.Adam(student.parameters(), lr=1e-3)
    for x, y in loader:
        with torch.no_grad():
            goal = teacher(x).softmax(-1)  # <- random-teacher
        loss = F.kl_div(student(x).log_softmax(-1), goal, reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

## Good

    teacher = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 3))
    teacher.requires_grad_(False)
    teacher.eval()
    student = nn.Linear(8, 3)
    optimizer = torch.optim.Adam(student.parameters(), lr=1e-3)
    for x, y in loader:
        with torch.no_grad():
            goal = teacher(x).softmax(-1)
        loss = F.kl_div(student(x).log_softmax(-1), goal, reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

## When it is fine

A teacher whose weights are averages of the student's may be random on purpose, as in "Mean teachers":

    import copy

    student = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 3))
    teacher = copy.deepcopy(student)
    optimizer = torch.optim.Adam(student.parameters(), lr=1e-3)
    for x, y in loader:
        with torch.no_grad():
            goal = teacher(x).softmax(-1)
        loss = F.kl_div(student(x).log_softmax(-1), goal, reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for mine, theirs in zip(teacher.parameters(), student.parameters()):
                mine.lerp_(theirs, 0.01)

Features that the trained network reads are left alone as well.

## Fix

None: where `eval()` belongs depends on the script.

## References

Hinton et al., "Distilling the Knowledge in a Neural Network"; Tarvainen and Valpola, "Mean teachers are better role
models"; PyTorch documentation, `torch.nn.Module.eval`.
"""

from __future__ import annotations

from lintrain.rule import Level, OddCallRule


class RandomTeacher(OddCallRule):
    level = Level.WARNING
    odd = "random teacher"
    odd_message = "a network that is not trained gives random answers, which a loss follows"
    odd_help = "call `eval()` on it before the loop"
