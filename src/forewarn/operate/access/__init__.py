"""Who may use the service: identities, roles, proofs of who is calling, sessions, tokens, the audit log."""
