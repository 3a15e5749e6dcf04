"""The fake provider's own tests: a fake that lets broken requests through would prove nothing."""
