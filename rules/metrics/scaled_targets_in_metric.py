"""A metric compares predictions in their own units with targets that are still scaled.

The predictions were scaled back with `inverse_transform`, the targets of the test were not, or the reverse. The error
is that of prices against numbers from 0 to 1: it says nothing about the model, and no error is raised.

## Bad

    from sklearn.metrics import mean_squared_error
    from sklearn.preprocessing import MinMaxScaler

    series = np.arange(100.0).reshape(-1, 1)
    scaler = MinMaxScaler().fit(series[:80])
    test = scaler.transform(series[80:])
    regressor = nn.Linear(1, 1)
    outputs = regressor(torch.tensor(test).float()).detach().numpy()
    predicted = scaler.inverse_transform(outputs)
    error = mean_squared_error(test, predicted)  # <- scaled-targets-in-metric

## Good

    from sklearn.metrics import mean_squared_error
    from sklearn.preprocessing import MinMaxScaler

    series = np.arange(100.0).reshape(-1, 1)
    scaler = MinMaxScaler().fit(series[:80])
    test = scaler.transform(series[80:])
    regressor = nn.Linear(1, 1)
    outputs = regressor(torch.tensor(test).float()).detach().numpy()
    predicted = scaler.inverse_transform(outputs)
    error = mean_squared_error(scaler.inverse_transform(test), predicted)

## When it is fine

Targets that were never scaled, and two scaled arrays:

    from sklearn.metrics import mean_squared_error
    from sklearn.preprocessing import MinMaxScaler

    series = np.arange(100.0).reshape(-1, 1)
    scaler = MinMaxScaler().fit(series[:80])
    test = scaler.transform(series[80:])
    regressor = nn.Linear(1, 1)
    outputs = regressor(torch.tensor(test).float()).detach().numpy()
    predicted = scaler.inverse_transform(outputs)
    error = mean_squared_error(series[80:], predicted)
    relative = mean_squared_error(test, outputs)

## Fix

None: either both arrays are scaled back, or neither.

## References

scikit-learn documentation, `MinMaxScaler.inverse_transform`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import metric_scales
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, Source, Targets, one_per_location


class ScaledTargetsInMetric(Rule):
    level = Level.ERROR
    keywords = "inverse_transform"
    needs_training = False

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return any(metric_scales.other_scales(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(map(self._report, metric_scales.other_scales(pipeline.source)))

    def _report(self, found: metric_scales.OtherScale) -> Finding:
        shown = f"`{found.scaled}`" if len(found.scaled) <= 20 else "one argument"
        return self.finding(
            found.location,
            f"{shown} is still scaled, and what it is compared with is not",
            related=[Related(found.back, "scaled back here", "back")],
            help=f"scale it back as well: `{found.scaler}.inverse_transform(…)`",
        )
