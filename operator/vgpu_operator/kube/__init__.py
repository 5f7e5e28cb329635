"""Everything that talks to the API server, and the clock: nothing else does."""
