"""What Prometheus reads, and the health end points beside it."""
