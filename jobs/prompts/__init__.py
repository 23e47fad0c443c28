"""Benchmark prompts: what is asked of the deployment, made once and read by every client.

Standard library and numpy only, so that it runs in the engine's Python, which has the tokenizer,
and in ours, which has the client.
"""
