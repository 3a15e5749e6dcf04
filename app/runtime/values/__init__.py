"""Arguments and results of the services, by resource: the values between the API and the runtime, and the API's
schemas."""
