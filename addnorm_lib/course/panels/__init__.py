"""Live panels: the machinery of sliders, pictures and readouts."""
