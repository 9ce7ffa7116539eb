// A real OpenID Connect provider for tests: node server.mjs PORT REDIRECT_URI
// Any name logs in, with any password. New signing keys at each start, so that a restart rotates them.
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { Provider } from 'oidc-provider';

const [port, redirect] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;
const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const key = { ...privateKey.export({ format: 'jwk' }), kid: randomUUID(), use: 'sig', alg: 'RS256' };
const GROUPS = { olga: ['hpc-operators'], hugo: ['hpc-support'] };

const claims = (user) => ({
  sub: user,
  preferred_username: user,
  groups: GROUPS[user] ?? [],
  email: `${user}@example.org`,
  email_verified: true,
});

const provider = new Provider(issuer, {
  clients: [
    {
      client_id: 'forewarn',
      client_secret: 'a secret with spaces & signs %',
      redirect_uris: [redirect],
      grant_types: ['authorization_code'],
      response_types: ['code'],
    },
    {
      client_id: 'program',
      token_endpoint_auth_method: 'none',
      redirect_uris: ['http://127.0.0.1/program'],
      application_type: 'native',
      grant_types: ['authorization_code'],
      response_types: ['code'],
    },
  ],
  jwks: { keys: [key] },
  cookies: { keys: [randomUUID()] },
  conformIdTokenClaims: false,
  claims: { openid: ['sub'], profile: ['preferred_username', 'groups'], email: ['email', 'email_verified'] },
  findAccount: (_, user) => ({ accountId: user, claims: () => claims(user) }),
  pkce: { required: () => true, methods: ['S256'] },
  extraTokenClaims: (_, token) => {
    const { preferred_username, groups } = claims(token.accountId);
    return { preferred_username, groups };
  },
  features: {
    devInteractions: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => 'urn:forewarn:api',
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({
        scope: 'openid profile',
        audience: 'forewarn-api',
        accessTokenFormat: 'jwt',
        accessTokenTTL: 600,
        jwt: { sign: { alg: 'RS256' } },
      }),
    },
  },
});

provider.listen(Number(port), '127.0.0.1', () => console.log(`ready ${issuer}`));
