"""The documentation site: what MkDocs is told, and the generated reference.

Also the figures of the packages, and the dashboard and the rules of `deploy/monitoring/`. All of it
is a tool of the repository, as the tests are: the wheel holds nothing of it.
"""
