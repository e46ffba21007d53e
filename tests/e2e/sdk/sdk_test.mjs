// Drives termalin-mcp with the official MCP client, which checks every result against the tool's outputSchema.
// argv: the program under test.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';

const program = process.env.TERMALIN_MCP;
const home = mkdtempSync(join(tmpdir(), 'termalin-sdk-'));
const env = { PATH: process.env.PATH, TERMALIN_HOME: home };
const versions = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'];

async function connect(version) {
  const transport = new StdioClientTransport({ command: program, env, stderr: 'inherit' });
  if (version) {
    const send = transport.send.bind(transport);
    transport.send = (message) => {
      if (message.method === 'initialize') message.params.protocolVersion = version;
      return send(message);
    };
  }
  const client = new Client({ name: 'sdk-test', version: '1' });
  const errors = [];
  client.onerror = (error) => errors.push(error);
  await client.connect(transport);
  return { client, transport, errors };
}

before(() => {
  // A host whose line never answers: a proxy that keeps silent until its input ends.
  execFileSync(program, ['host', 'add', 'silent', 'nobody@silent.invalid', '--policy', 'full', '--proxy-command',
    'cat >/dev/null', '--yes'], { env, stdio: ['ignore', 'ignore', 'inherit'] });
});
after(() => rmSync(home, { recursive: true, force: true }));

for (const version of versions) {
  test(`initializes, lists and calls in protocol version ${version}`, async () => {
    const { client, errors } = await connect(version);
    assert.equal(client.getServerVersion().name, 'termalin');
    assert.match(client.getInstructions(), /no terminal, no input/);
    const { tools, nextCursor } = await client.listTools();
    assert.equal(tools.length, 22);
    assert.equal(nextCursor, undefined);
    const result = await client.callTool({ name: 'generate_password', arguments: { length: 33 } });
    assert.equal(result.structuredContent.password.length, 33);
    assert.deepEqual(JSON.parse(result.content[0].text), result.structuredContent);
    await client.close();
    assert.deepEqual(errors, []);
  });
}

test('gives structured content that the client validates against each schema', async () => {
  const { client } = await connect();
  await client.listTools(); // compiles the validators of all 22 output schemas
  const hosts = await client.callTool({ name: 'hosts_list' });
  assert.deepEqual(hosts.structuredContent.hosts.map((host) => host.name), ['silent']);
  assert.equal((await client.callTool({ name: 'generate_password', arguments: { length: 1 } })).structuredContent.length, 8);
  assert.deepEqual((await client.callTool({ name: 'session_list', arguments: {} })).structuredContent, { sessions: [] });
  assert.deepEqual((await client.callTool({ name: 'tunnel_list', arguments: {} })).structuredContent, { tunnels: [] });
  await client.close();
});

test('fails as a result that a model can read, or as an error of the protocol', async () => {
  const { client } = await connect();
  await client.listTools();
  for (const [name, args, code] of [
    ['ssh_exec', {}, 'invalid_argument'],
    ['ssh_exec', { host: 'silent', command: 'true', timeoutSeconds: '60' }, 'invalid_argument'],
    ['ssh_exec', { host: 'nowhere', command: 'true' }, 'unknown_host'],
    ['session_exec', { session: 'nope', command: 'true' }, 'unknown_session'],
    ['tunnel_close', { tunnel: 'nope' }, 'unknown_tunnel'],
    ['terminal_hosts', {}, 'app_not_running'],
    ['data_query', { hostId: 'x', query: 'select 1' }, 'app_not_running'],
  ]) {
    const result = await client.callTool({ name, arguments: args });
    assert.equal(result.isError, true, name);
    assert.equal(result.structuredContent, undefined, name);
    assert.equal(result._meta.code, code, `${name}: ${result.content[0].text}`);
    assert.ok(result.content[0].text.startsWith(`${code}: `), name);
  }
  await assert.rejects(client.callTool({ name: 'nope' }), { code: -32602 });
  await assert.rejects(client.listTools({ cursor: 'x' }), { code: -32602 });
  await assert.rejects(client.listResources(), /resources|-32601/);
  await client.close();
});

test('takes a cancel, answers nothing to it, and goes on', async () => {
  const { client, errors } = await connect();
  const abort = new AbortController();
  const call = client.callTool({ name: 'ssh_exec', arguments: { host: 'silent', command: 'true' } }, undefined,
    { signal: abort.signal });
  await client.ping(); // the call has been read by now
  abort.abort('enough');
  await assert.rejects(call);
  await client.ping();
  assert.equal((await client.callTool({ name: 'generate_password' })).structuredContent.length, 20);
  await client.close();
  assert.deepEqual(errors, []); // a late reply would be one
});

test('reports progress while a call waits', async () => {
  const { client } = await connect();
  const seen = [];
  const abort = new AbortController();
  const two = new Promise((resolve) => {
    client.callTool({ name: 'ssh_exec', arguments: { host: 'silent', command: 'true' } }, undefined, {
      signal: abort.signal,
      onprogress: (progress) => seen.push(progress.progress) === 2 && resolve(),
    }).catch(() => {});
  });
  await two;
  assert.ok(seen[1] > seen[0]);
  abort.abort();
  await client.close();
});

test('times out as the tool, not as the protocol', async () => {
  const { client } = await connect();
  const result = await client.callTool({ name: 'ssh_exec', arguments: { host: 'silent', command: 'true', timeoutSeconds: 1 } });
  assert.deepEqual(result._meta, { code: 'timeout', retryable: true });
  await client.close();
});

test('sets the level of log messages', async () => {
  const { client } = await connect();
  await client.setLoggingLevel('error');
  await client.close();
});
