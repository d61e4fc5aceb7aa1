"""Chapter 3: layer norm, batch norm and their relatives."""
