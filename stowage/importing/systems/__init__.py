"""The systems that can be imported: a module for each, and what only that one needs beside it."""
