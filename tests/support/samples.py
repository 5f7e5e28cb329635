"""What a scrape of the operator's metrics says."""

import re


class Samples:
    """The samples of one scrape."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of the samples with that name and these labels."""
        found = 0.0
        for line in self._lines:
            match = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
            if match is None or match[1] != name:
                continue
            if labels.items() <= dict(re.findall(r'(\w+)="([^"]*)"', match[2] or "")).items():
                found += float(match[3])
        return found

    def most(self, name: str, quantile: float) -> float:
        """Return the upper bound of the histogram's bucket that holds that quantile."""
        buckets: dict[float, float] = {}
        for line in self._lines:
            match = re.fullmatch(rf'{name}_bucket{{.*le="([^"]+)".*}} (\S+)', line)
            if match is not None:
                bound = float(match[1])
                buckets[bound] = buckets.get(bound, 0.0) + float(match[2])
        every = max(buckets.values(), default=0.0)
        return min((b for b, n in buckets.items() if n >= quantile * every), default=0.0)
