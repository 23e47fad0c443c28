"""The rehearsal engine: a stand-in server that speaks vLLM's protocol without a model or a GPU.

It lets the whole of a run (start, readiness, canary, points, accuracy, tear-down) be practised
on any machine. Everything it answers is made up; it says so in its log, its version, its
response header and its metrics, and runs with it are never comparable.
"""
