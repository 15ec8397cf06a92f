"""Show readings: view model, templates, the page."""
