"""What sets the project up, runs its notebooks and proves them; readers of the notebooks need none of it."""
