"""What one wants to see of a compilation: requests in few words, costs, memory, and drawings."""
