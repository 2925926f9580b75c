-- A store as version 1 wrote it: two clients, a topic, three notifications, one of them acknowledged.
CREATE TABLE clients (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    id         TEXT    NOT NULL UNIQUE,
    token      BLOB    NOT NULL,
    created_ms INTEGER NOT NULL
);
CREATE TABLE topics (
    number INTEGER PRIMARY KEY,
    name   TEXT    NOT NULL UNIQUE
);
CREATE TABLE subscriptions (
    client INTEGER NOT NULL,
    topic  INTEGER NOT NULL,
    start  INTEGER NOT NULL,
    ack    INTEGER NOT NULL,
    PRIMARY KEY (client, topic)
) WITHOUT ROWID;
CREATE TABLE log (
    number     INTEGER PRIMARY KEY,
    target     INTEGER NOT NULL,
    type       INTEGER NOT NULL,
    ts_ms      INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    topic      TEXT,
    content    BLOB    NOT NULL
);
CREATE INDEX log_expiry ON log (expires_ms, target);
CREATE TABLE inboxes (
    client INTEGER PRIMARY KEY,
    cursor INTEGER NOT NULL,
    state  BLOB    NOT NULL
);
CREATE TABLE keys (
    key        TEXT    PRIMARY KEY,
    number     INTEGER NOT NULL,
    private    INTEGER NOT NULL,
    audience   INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX keys_expiry ON keys (expires_ms);
CREATE TABLE marks (
    name  TEXT    PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;
-- Tokens for trying out: "throw-away token of ann", "throw-away token of bob".
INSERT INTO clients VALUES (1, 'ann', X'8bee2b34708698ac9cb47d5c2a205b7dd30b6f35e2236941201d44394f91d5e3', 1790000000000);
INSERT INTO clients VALUES (2, 'bob', X'86800a896de3df09cefd5382c6933b99e360564069da494fcf5250fe14f6d776', 1790000000000);
INSERT INTO topics VALUES (1, '@news');
INSERT INTO subscriptions VALUES (1, 1, 0, 1);
INSERT INTO subscriptions VALUES (2, 1, 373000000000000, 1);
INSERT INTO log VALUES (372990000000001, 1, 0, 1790000000000, 4000000000000, NULL, X'6f6e65');
INSERT INTO log VALUES (372990000000002, 1, 7, 1790000000001, 4000000000000, NULL, X'74776f');
INSERT INTO log VALUES (372990000000003, -2, 0, 1790000000002, 4000000000000, NULL, X'626f62');
-- Cursor at the second, a hole at the first: msgpack of ([], [372990000000001]).
INSERT INTO inboxes VALUES (1, 372990000000002, X'929091cf0001533b80746c01');
INSERT INTO keys VALUES ('k', 372990000000001, 0, 1, 4000000000000);
INSERT INTO marks VALUES ('number', 372990000000009);
PRAGMA user_version = 1;
