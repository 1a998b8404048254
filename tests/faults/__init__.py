"""The fault suite: real processes killed, stopped and starved (make faults)."""
