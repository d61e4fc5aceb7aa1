"""The content: a folder a chapter, named as its notebook. Chapters do not import each other."""
