"""`gpumon-static demo`: the embedded cluster."""
