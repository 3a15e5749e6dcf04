"""What operators see of a running server: health, log lines, metrics and traces."""
