"""What a server program's command line takes, release by release, and checks against it.

The tables (vllm.json, vllm_router.json) are made by envs/flag_tables/make_tables.py from the
releases themselves; nothing here knows an engine.
"""
