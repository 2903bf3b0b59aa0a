"""Many images have one color only.

They were not found, not decoded, or cut at a wrong place, and a black image was put in their place. Or the pixels were
scaled twice and rounded to zero. The model learns nothing from them but the share of their labels.

## Bad

    pictures = torch.rand(96, 3, 16, 16)
    pictures[::4] = 0
    conv = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3))
    optimizer = torch.optim.Adam(conv.parameters())
    loader = DataLoader(TensorDataset(pictures, targets), batch_size=16, shuffle=True)  # <- constant-images
    for inputs, labels in loader:
        optimizer.zero_grad()
        criterion(conv(inputs), labels).backward()
        optimizer.step()

## Good

    pictures = torch.rand(96, 3, 16, 16)
    conv = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3))
    optimizer = torch.optim.Adam(conv.parameters())
    loader = DataLoader(TensorDataset(pictures, targets), batch_size=16, shuffle=True)
    for inputs, labels in loader:
        optimizer.zero_grad()
        criterion(conv(inputs), labels).backward()
        optimizer.step()

## When it is fine

Patches of a large picture may show its background only, and layers of a scan what surrounds the body. Fewer than 5 %
are listed in the report of a probe without a finding; masks and other targets are not judged.

## Fix

None: open some of these images to see what is wrong.

## References

torchvision documentation, `ToTensor` and `ToImage`: only integers are scaled to [0, 1].
"""

from lintrain.rule import Level, RowsRule


class ConstantImages(RowsRule):
    level = Level.WARNING
    message = "many images have one color only"
    help_text = "open some of them: files that are missing or damaged, or pixels that are scaled twice"
    subject = "train_dataset"
    faults = ("constant image",)
    fewest_rows = 3
    smallest_share = 0.05
