"""Keep readings: `load_data.csv`, and the lock that keeps runs apart."""
