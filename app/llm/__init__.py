"""Model providers: a neutral request goes in and a neutral stream comes out, whatever the provider's format."""
