"""A server's kinds, rights and admission policies."""
