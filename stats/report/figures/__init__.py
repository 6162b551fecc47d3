"""The figures of a report: plain data, then bars and runs in one style; part of the room ``stats.report``."""
