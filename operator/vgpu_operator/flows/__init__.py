"""What the operator does, without doing it: values and ``now`` in, effects out."""
