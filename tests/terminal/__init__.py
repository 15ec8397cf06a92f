"""show, top, free, history: what a person sees in a terminal."""
