"""The tables of ``docs/simulated-nodes.md``: what each simulated plugin does, and its cards."""

from typing import Final

import doc_tables

from vgpu_operator.agent import cards, plugins
from vgpu_operator.agent import manners as vendor_manners
from vgpu_operator.model import settings

_FORMS: Final = {
    vendor_manners.Register.JSON: "JSON",
    vendor_manners.Register.COLON: "colon form",
    vendor_manners.Register.GCU: "its own JSON",
    vendor_manners.Register.SGPU: "its own JSON list",
}

_REPORTS: Final = {
    None: "-",
    vendor_manners.Report.UNDERSCORE: "`Reported_2026-01-15 10:00:00`",
    vendor_manners.Report.DOTTED: "`Reported_2026.01.15 10:00:00`",
    vendor_manners.Report.SPACE: "`Reported 2026-01-15 10:00:00`",
}


def plugin_table() -> str:
    """What each vendor's plugin writes, by vendor."""
    rows = [
        (
            doc_tables.code(keyword),
            _registration(plugin),
            ", ".join(_offers(plugin)),
            _REPORTS[plugin.manners.report],
            _allocation(plugin),
        )
        for keyword, plugin in plugins.every_plugin(settings.Settings()).items()
    ]
    return doc_tables.table(
        ("Vendor", "Cards are registered by", "The kubelet lists", "Handshake", "Allocate"), rows
    )


def card_table() -> str:
    """The usual card of each vendor, and what the file can say of it."""
    rows = []
    for keyword, model in cards.MODELS.items():
        info = ", ".join(f"`{name}`" for name in cards.info_of(model, 0)) or "-"
        told = ", ".join(f"`{name}`" for name in sorted(model.says)) or "-"
        rows.append(
            (
                doc_tables.code(keyword),
                doc_tables.code(model.type),
                str(model.count),
                str(model.memory),
                str(model.cores),
                model.mode or "-",
                info,
                "all" if model.says == cards.EVERY_FIELD else told,
            )
        )
    return doc_tables.table(
        ("`vendor`", "`type`", "`count`", "`memory`", "`cores`", "`mode`", "`info`", "can be said"),
        rows,
    )


def _registration(plugin: plugins.Plugin) -> str:
    if plugin.spec.register_key is None:
        label = plugin.manners.label
        return "the capacity" + (f", label `{label[0]}`" if label else "")
    more = "".join(f", `{key}`" for key in plugin.manners.notes)
    return f"`{plugin.spec.register_key}`, {_FORMS[plugin.manners.register]}{more}"


def _offers(plugin: plugins.Plugin) -> list[str]:
    spec = plugin.spec
    names = {"count": spec.count_resource, "cores": spec.cores_resource}
    names["memory"] = spec.memory_resource
    found = []
    for part, amount in plugin.manners.offers.items():
        what = amount.value
        if amount is vendor_manners.Amount.MEMORY:
            what = f"units of {spec.memory_unit_mib} MiB"
        found.append(f"`{names[part]}` ({what})")
    return found


def _allocation(plugin: plugins.Plugin) -> str:
    spec, manners = plugin.spec, plugin.manners
    match manners.serving:
        case vendor_manners.Serving.ENTRY:
            return f"by entry: `{spec.to_allocate_key}`; frees `{spec.lock_key}`"
        case vendor_manners.Serving.MARK:
            entries = f", `{manners.entries}` before" if manners.entries else ""
            freed = f"; frees `{spec.lock_key}`" if spec.lock_key else ""
            return f"by mark: `{manners.mark}`{entries}{freed}"
        case vendor_manners.Serving.NOTHING:
            return "nothing"
