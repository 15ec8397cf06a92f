"""What readings mean: states, health, offers, jobs, people."""
