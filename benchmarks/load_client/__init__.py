"""Peers, servers and costs shared by the measurements of the load client."""
