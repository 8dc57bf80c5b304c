"""The plugins that come with Stowage, one module each; `controller.plugins.defaults` lists them."""
