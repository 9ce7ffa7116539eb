"""Who is calling over HTTP: what a request carries, sessions of browsers, logins."""

from forewarn.serve.rest.auth.routes import router

__all__ = ["router"]
