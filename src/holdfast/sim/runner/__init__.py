"""Running scenarios: one seed, many seeds, planted bugs, shrinking, reports."""
