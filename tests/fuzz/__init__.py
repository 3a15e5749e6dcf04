"""Fuzzers: hostile input, generated from a seed, for every interface that accepts external input.

`python -m tests.fuzz --help` shows how to run them for minutes; the ordinary tests run each for a few inputs. A fuzzer
draws a case, tries it and reports the outcome; anything it raises is a crash, which is shrunk and kept.
"""
