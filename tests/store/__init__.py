"""load_data.csv, events, locks: what is kept between runs."""
