"""The REST API: routes that parse a request, ask the service, and render its answer."""
