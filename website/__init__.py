"""The documentation site: what MkDocs is told, the generated reference, and the pictures.

A tool of the repository, as the tests are: the wheel holds nothing of it.
"""
