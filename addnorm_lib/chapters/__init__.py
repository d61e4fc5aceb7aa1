"""The chapters, one folder each, named as its notebook; they never import each other."""
