"""The engine of the exercises, a file an idea; from the top: session, registry, judging, wording and values, define,
edits, inputs and sandbox, comparison, source.
"""
