"""What Slurm prints, and a real Slurm."""
