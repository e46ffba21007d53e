#pragma once

#include <array>

namespace termalin {

/// The steps of sqlite::migrate() for the store. A step that has been released is never edited: append one.
inline constexpr std::array kSchemaSteps{
    // Version 1
    R"(
    CREATE TABLE hosts (
        id TEXT PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        hostname TEXT NOT NULL,
        port INTEGER NOT NULL,
        username TEXT NOT NULL,
        auth_type TEXT NOT NULL,
        policy TEXT NOT NULL,
        tags TEXT NOT NULL,
        notes TEXT NOT NULL,
        key_files TEXT NOT NULL,
        certificate_files TEXT NOT NULL,
        identities_only INTEGER NOT NULL,
        agent_socket TEXT NOT NULL,
        known_hosts_file TEXT NOT NULL,
        host_key_alias TEXT NOT NULL,
        proxy_command TEXT NOT NULL,
        rules TEXT NOT NULL,
        reads TEXT NOT NULL,
        revision INTEGER NOT NULL,
        route_revision INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE jumps (
        host TEXT NOT NULL REFERENCES hosts (id),
        position INTEGER NOT NULL,
        via TEXT NOT NULL REFERENCES hosts (id),
        PRIMARY KEY (host, position)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX jumps_via ON jumps (via);
    CREATE TABLE "values" (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE blobs (
        owner TEXT NOT NULL,
        name TEXT NOT NULL,
        bytes BLOB NOT NULL,
        PRIMARY KEY (owner, name)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE widenings (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        time TEXT NOT NULL,
        program TEXT NOT NULL,
        what TEXT NOT NULL,
        before TEXT NOT NULL
    ) STRICT;
    INSERT INTO hosts VALUES ('local', 'local', 'localhost', 22, '', 'agent', 'blocked', '', '', '', '', 0, '', '', '',
                              '', '', '', 1, 1);
    )",
    // Version 2: what ssh_config says of the connection; -1 is "not set". known_hosts_file may have several
    // lines.
    R"(
    ALTER TABLE hosts ADD COLUMN address_family TEXT NOT NULL DEFAULT 'any';
    ALTER TABLE hosts ADD COLUMN connect_timeout INTEGER NOT NULL DEFAULT -1;
    ALTER TABLE hosts ADD COLUMN server_alive_interval INTEGER NOT NULL DEFAULT -1;
    ALTER TABLE hosts ADD COLUMN server_alive_count_max INTEGER NOT NULL DEFAULT -1;
    )",
};

} // namespace termalin
