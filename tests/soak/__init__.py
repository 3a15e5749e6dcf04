"""The soak rig: a real server under seeded users and seeded faults, and a checker of its invariants.

`python -m tests.soak --help` shows how to run it. The actions come from `plan`, which is derived from a seed alone;
actions and observations go into `ledger`; `checks` compares that with the database afterward, purely.
"""
