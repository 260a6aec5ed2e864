"""Tasks of four formats, inputs from a seed, references, filters, the confined host. Loads torch only to run one."""
