"""The scenarios: one module each, whose ``SCENARIO`` is its class; loaded by name, only when called for."""
