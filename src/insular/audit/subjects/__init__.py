"""What is under test: a batch of records in, one gradient per record out."""
