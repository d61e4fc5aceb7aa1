"""Live ipywidgets panels."""
