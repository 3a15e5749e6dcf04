"""The soak rig: a real server under seeded users and seeded faults, and a checker that holds its invariants.

`python -m tests.soak --help` says how to run it. What is done comes from `plan`, which is made of a seed alone; what
was done and seen goes into `ledger`; `checks` compares that with the database afterwards, purely.
"""
