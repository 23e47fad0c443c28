"""`python -m jobs list | show | logs | watch | cancel`: runs, from their directories alone."""
