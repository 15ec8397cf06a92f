"""The page: what it says, its HTML, and in a browser."""
