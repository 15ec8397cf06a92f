"""`gpumon-static check`, and every line that is printed to be pasted."""
