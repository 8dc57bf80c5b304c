"""The plugins that come with Stowage, one module each. `catalogue` lists them."""
