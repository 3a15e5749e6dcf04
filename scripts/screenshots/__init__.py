"""Takes the pictures of the page that the README shows: `python -m scripts.screenshots`.

The sessions in them are played by the strict provider of the tests; the server, the sandbox, the commands and their
outputs are real.
"""
