"""Tasks, their formats, inputs, references and filters."""
