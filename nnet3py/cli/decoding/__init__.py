"""Commands that search graphs for words, of tables and of streams, and that count word errors."""
