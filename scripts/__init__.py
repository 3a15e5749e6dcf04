"""What is run by hand now and then: `python -m scripts.NAME`."""
