"""Tables of metrics, from the families and instruments themselves."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import doc_tables
import prometheus_client as prom
from prometheus_client import metrics as prom_metrics

from vgpu_operator.flows import books
from vgpu_operator.metrics import (
    cards_page,
    collector,
    families,
    fleet_page,
    instruments,
    kept,
    older_families,
    web_ui_families,
)
from vgpu_operator.model import settings
from vgpu_operator.vendors import registry

OLDER: Final[Sequence[families.Family[Any]]] = (*kept.OLDER.all, older_families.QUOTA_USED)
WEB_UI: Final[Sequence[families.Family[Any]]] = (*kept.WEB_UI.all, *web_ui_families.POOLS)


def own() -> str:
    """Return what the operator says about itself: what it turns, then what it reads."""
    rows = [
        _family_row(family, vars(instrument)["_labelnames"])
        for instrument in vars(instruments.Instruments()).values()
        if isinstance(instrument, prom_metrics.MetricWrapperBase)
        for family in instrument.describe()
    ]
    rows += [_family_row(family, ()) for family in instruments.CertificateEnd().collect()]
    rows += [_family_row(family, vars(family)["_labelnames"]) for family in _read()]
    return _table([*rows, *_written(fleet_page.FAMILIES)])


def cards() -> str:
    """Return the series of cards, shares and quotas."""
    return _table(_written(cards_page.FAMILIES))


def older() -> str:
    """Return the names of before HAMi 2.9."""
    return _table(_written(OLDER))


def web_ui() -> str:
    """Return HAMi-WebUI's names."""
    return _table(_written(WEB_UI))


def names() -> frozenset[str]:
    """Return every series' name as it stands on a page, those of histograms included."""
    found = set()
    for family in (*instruments.Instruments().registry.collect(), *_read()):
        suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}
        found |= {family.name + suffix for suffix in suffixes.get(family.type, ("",))}
    every: Sequence[families.Family[Any]] = (
        *fleet_page.FAMILIES,
        *cards_page.FAMILIES,
        *OLDER,
        *WEB_UI,
    )
    return frozenset(found | {family.name for family in every})


def _read() -> Iterable[prom.Metric]:
    """Return what is read from the books at each scrape, of empty ones."""
    configured = settings.Settings()
    return collector.BooksCollector(
        books.open_books(configured, registry.build(configured))
    ).collect()


def _written(found: Iterable[families.Family[Any]]) -> list[tuple[str, str, str, str]]:
    return [_row(family.name, "gauge", family.labels, family.help) for family in found]


def _family_row(family: prom.Metric, labels: Iterable[str]) -> tuple[str, str, str, str]:
    # The library drops the suffix of a counter's name and puts it back on its page.
    name = f"{family.name}_total" if family.type == "counter" else family.name
    return _row(name, family.type, labels, family.documentation)


def _row(name: str, kind: str, labels: Iterable[str], text: str) -> tuple[str, str, str, str]:
    spoken = ", ".join(doc_tables.code(label) for label in labels)
    return doc_tables.code(name), kind, spoken or "none", text


def _table(rows: Iterable[tuple[str, str, str, str]]) -> str:
    return doc_tables.table(("Name", "Type", "Labels", "Meaning"), list(rows))
