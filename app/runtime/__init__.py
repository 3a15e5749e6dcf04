"""The runtime: owns running sessions, commits what happens in them, and serves everything that the API asks for.

- The front: `services`, one for each resource, with the `values` that they take and answer.
- Who works: `registry` keeps one owner for each session that has something to do, `session` is that owner, with the
  session as it sees it (`owned`), what is asked of its compaction (`asked_rounds`), its agent (`agents`, `assembly`,
  `notes`, `recall`) and its sandbox (`sandboxes`).
- What is written: `recorder` commits what an owner does through `changes` (`step_changes`, `message_changes`,
  `compactions`); `lifecycle`, `inbox`, `runs`, `recovery` and `transfer` are the other transactions. `admission` checks
  what a session may have before one.
- What is read: `history`, `preview`, and `cursors` for the places of pages.
"""
