"""Plugins of the test suite; they must be named here, at the root."""

pytest_plugins = ["tests.fixtures_wire"]
