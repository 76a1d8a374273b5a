"""The command `stallwatch`: one file per sub-command."""
