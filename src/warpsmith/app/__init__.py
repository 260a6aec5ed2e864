"""What a person or a program asks for: one function a command. This is the Python API."""
