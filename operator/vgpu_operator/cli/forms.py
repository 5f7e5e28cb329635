"""What the forms of a list of cards are called."""

import enum


class Form(enum.StrEnum):
    """A form of the usual register text."""

    JSON = "json"
    LEGACY = "legacy"
    LEGACY_SHORT = "legacy-short"
