"""Which resources the settings name, and that no name means two things.

A name with two meanings would have one amount counted twice, once for each.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from vgpu_operator.model.vendor_settings import section


def named(sections: section.Section, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield path and name of every resource of what is switched on."""
    for field, name in sections.resource_names():
        yield f"{prefix}{field}", name
    for attribute, info in type(sections).model_fields.items():
        value = getattr(sections, attribute)
        path = f"{prefix}{info.alias or attribute}"
        if isinstance(value, section.Section) and getattr(value, "enabled", True):
            yield from named(value, f"{path}.")
        elif isinstance(value, tuple):
            for place, item in enumerate(value):
                if isinstance(item, section.Section):
                    yield from named(item, f"{path}.{place}.")


def twins(names: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str, str]]:
    """Yield name and both paths of each name that comes twice, the earlier path first.

    >>> list(twins([("a", "x.io/gpu"), ("b", "y.io/gpu"), ("c", "x.io/gpu")]))
    [('x.io/gpu', 'a', 'c')]
    """
    first: dict[str, str] = {}
    for path, name in names:
        if name in first:
            yield name, first[name], path
        else:
            first[name] = path


def clashes(names: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield a sentence for each name that comes twice."""
    for name, earlier, path in twins(names):
        yield f"{path}: {name} is {earlier} already; give each resource a name of its own"


def wrong_aliases(
    aliases: Mapping[str, Sequence[str]], *, now: Collection[str], ever: Collection[str]
) -> Iterator[str]:
    """Yield a sentence for each alias that cannot count or would count twice.

    Args:
        aliases: earlier names of a resource by today's name.
        now: names of today of what is switched on.
        ever: the same of everything, switched on or not.
    """
    first: dict[str, str] = {}
    for today, earlier in aliases.items():
        path = f"resourceAliases.{today}"
        if today not in ever:
            yield f"{path}: no vendor has a resource of that name; write the name of today"
        for name in earlier:
            if name in now:
                yield f"{path}: {name} is the name of a resource today; take it out"
            elif first.setdefault(name, path) != path:
                yield f"{path}: {name} is in {first[name]} already; take one of them out"
