"""What the services take and what they answer, by resource: the values between the API and the runtime, and the API's
schemas."""
