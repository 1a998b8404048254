"""What the tests share: cases, published recursions, launchers, problems."""
