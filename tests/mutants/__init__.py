"""One-line mutations of the package, each with the tests that must notice it: ``make mutants``."""
