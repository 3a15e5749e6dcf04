"""The soak of a cluster: API nodes and workers on Postgres, Temporal, Redis and a store of workspaces, under seeded
users and faults.

`python -m tests.soak --cluster` runs it. Each node reaches each service through a `links` proxy of its own, so that one
node can be cut off from one of them. `writes` records in the database who wrote each event, and `witness` hears of each
command as it runs, independently of what the nodes report.
"""
