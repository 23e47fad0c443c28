"""Benchmark clients: programs that load the deployment and write one result file each."""
