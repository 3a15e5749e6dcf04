"""What the services take and return: the values between the API and the runtime."""
