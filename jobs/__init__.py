"""The allocation's half: everything that happens between the first node and the last record."""
