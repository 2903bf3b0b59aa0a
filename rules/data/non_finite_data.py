"""Some rows contain NaN or infinite values.

A single NaN in a batch makes its loss NaN, and the next step makes all weights NaN. The batch with the row may come
long after the first ones. A probe reads all rows, as far as time allows, and says which ones have such values.

## Bad

    broken = features.clone()
    broken[71, 3] = float("nan")
    loader = DataLoader(TensorDataset(broken, targets), batch_size=16)  # <- non-finite-data
    for inputs, labels in loader:
        optimizer.zero_grad()
        criterion(net(inputs), labels).backward()
        optimizer.step()

## Good

    loader = DataLoader(TensorDataset(features, targets), batch_size=16)
    for inputs, labels in loader:
        optimizer.zero_grad()
        criterion(net(inputs), labels).backward()
        optimizer.step()

## When it is fine

NaN often stand for missing values. Nothing is reported for a column whose NaN the collator fills in, or which the loop
passes to `isnan`, `nan_to_num`, `masked_fill` or a similar function. With a Trainer or Keras, it is enough that the
script names such a function, `fillna` or an imputer.

## Fix

None: filling the values in and leaving the rows out are both reasonable.

## References

scikit-learn documentation, "Imputation of missing values".
"""

from lintrain.rule import Level, RowsRule


class NonFiniteData(RowsRule):
    level = Level.ERROR
    message = "some rows contain NaN or infinite values"
    help_text = "fill them in, for example with the mean of the training rows, or leave these rows out"
    faults = ("non-finite",)
