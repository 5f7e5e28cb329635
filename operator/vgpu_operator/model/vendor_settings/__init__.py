"""One module per vendor family: the section that ``vendors.<family>`` of the settings holds.

The names of fields are those of HAMi's device configuration, so that a
section of that document is read as it stands.
"""
