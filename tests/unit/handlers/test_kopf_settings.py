"""Kopf as we let it work: no marks of its own, lists in pages."""

from vgpu_operator.handlers import watches


def test_kopf_lists_in_pages_and_posts_and_scans_nothing() -> None:
    settings = watches.settings()

    assert settings.watching.chunk_size == 100
    assert not settings.posting.enabled
    assert settings.scanning.disabled
    assert settings.peering.standalone
