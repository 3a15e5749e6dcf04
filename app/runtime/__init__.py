"""The runtime: owns running sessions, commits their changes, and implements the API's operations.

- Front: `services`, one for each resource, with their arguments and results in `values`.
- Work: `registry` keeps one owner for each session with work, `session` is that owner, with its state of the session
  (`owned`), manual compactions (`asked_rounds`), its agent (`agents`, `assembly`, `notes`, `recall`) and its sandbox
  (`sandboxes`).
- Writes: `recorder` commits the changes of an owner through `changes` (`step_changes`, `message_changes`,
  `compactions`); `lifecycle`, `inbox`, `runs`, `recovery` and `transfer` are the other transactions. `admission`
  validates requests before a session is created or changed.
- Reads: `history`, `preview`, and `cursors` for pagination.
"""
