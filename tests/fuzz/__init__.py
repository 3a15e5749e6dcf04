"""Fuzzers: hostile input, drawn from a seed, for every border at which the service takes what others made.

`python -m tests.fuzz --help` says how to run them for minutes; the ordinary tests run each for a few inputs. A fuzzer
draws a case, tries it and says what came of it; whatever it raises is a crash, which is shrunk and kept.
"""
