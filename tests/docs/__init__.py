"""Documents that cannot drift, and the rules of the house."""
