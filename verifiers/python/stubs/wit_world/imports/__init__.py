"""What the component imports."""
