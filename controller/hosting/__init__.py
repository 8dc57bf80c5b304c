"""The process that plugins live in: where they come from, and what they may ask of it."""
