"""What every process of a command does.

Options and their parser, the click group, signals and errors, completion, resident processes.
"""
