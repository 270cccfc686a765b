"""What people want to see of a compilation: short requests, costs, memory, and drawings."""
