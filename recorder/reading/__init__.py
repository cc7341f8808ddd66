"""From agents' log files to facts: finding, tailing and importing them, and deciding what each line adds."""
