"""What a host hears of the work and may say to it: events, hooks, telemetry, the cache monitor, redaction."""
