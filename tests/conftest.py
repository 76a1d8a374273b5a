"""Fixtures for every test."""

pytest_plugins = ["tests.fixtures_wire"]
