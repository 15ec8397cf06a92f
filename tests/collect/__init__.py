"""From hosts to readings: vendors' programs, the probe, engines."""
