"""What the code of a foreign task says about its arguments, shapes and costs."""
