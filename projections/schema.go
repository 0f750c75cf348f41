package projections

// SchemaVersion is the version of the file layout. A file of another version is rebuilt
// from the ledger.
const SchemaVersion = 35

// readIndexes are the indexes that only queries, removals of volumes, and no other statement of
// the applier use. A rebuild creates them at its end, from sorted rows.
var readIndexes = [...]string{"executions_by_age", "executions_by_time", "executions_by_status", "executions_by_session", "executions_by_logical", "executions_by_heap", "output_by_line", "heaps_by_age",
	"sessions_by_use", "sessions_by_id", "logical_sessions_by_use", "logical_sessions_by_intent", "agent_sessions_by_title"}

// completeSchema creates what a file lacks of the tables and indexes.
const completeSchema = schema + callSchema + artifactSchema + replaySchema + agentSchema + contextSchema + logicalSchema

// Times are milliseconds since 1970 UTC. Bodies (source, result, error), actors and
// usage are JSON as recorded.
const schema = `
-- Of the events up to position removed, only kept events are left: see removals.
CREATE TABLE IF NOT EXISTS position (one INTEGER PRIMARY KEY CHECK (one = 1), applied INTEGER NOT NULL, removed INTEGER NOT NULL DEFAULT 0);
INSERT OR IGNORE INTO position VALUES (1, 0, 0);
-- The volumes that were removed, each by the event at seq.
CREATE TABLE IF NOT EXISTS removals (
	volume INTEGER PRIMARY KEY, first INTEGER NOT NULL, last INTEGER NOT NULL, ended_at INTEGER NOT NULL,
	seq INTEGER NOT NULL, at INTEGER NOT NULL, export TEXT NOT NULL
);
-- Positions that a removal keeps, while it is applied.
CREATE TABLE IF NOT EXISTS kept_events (seq INTEGER PRIMARY KEY);

CREATE TABLE IF NOT EXISTS executions (
	id INTEGER PRIMARY KEY,
	tenant TEXT NOT NULL, execution_id TEXT NOT NULL, status TEXT NOT NULL,
	requested_seq INTEGER NOT NULL, last_seq INTEGER NOT NULL,
	requested_at INTEGER NOT NULL, started_at INTEGER, completed_at INTEGER,
	-- started_at is the start of the first attempt; queued is 1 while no runner has the execution
	queued INTEGER NOT NULL DEFAULT 1,
	attempt INTEGER NOT NULL DEFAULT 0, engine_id TEXT,
	source TEXT NOT NULL, file_name TEXT NOT NULL, tags TEXT,
	requested_heap TEXT, input_heap TEXT, output_heap TEXT,
	migrated_from TEXT, -- the heap of another engine of which input_heap is a migration
	session TEXT, session_id TEXT,
	logical_id TEXT, turn INTEGER,
	heap_mb INTEGER NOT NULL, timeout_secs INTEGER NOT NULL,
	without_heap INTEGER NOT NULL, -- 1 if the run restores and leaves no heap
	actor TEXT NOT NULL, cancelled_by TEXT,
	result TEXT, result_truncated INTEGER NOT NULL DEFAULT 0, error TEXT, reason TEXT,
	usage TEXT, warnings TEXT NOT NULL,
	-- whether the input heap was pristine: 1, 0, or NULL where nothing was compared
	pristine INTEGER,
	-- why the run may not repeat: a JSON array of events.Nondeterminism, or NULL
	nondeterministic TEXT,
	-- how far the output reaches: see events.Extent
	out_line INTEGER NOT NULL DEFAULT 1, out_byte INTEGER NOT NULL DEFAULT 0, out_open INTEGER NOT NULL DEFAULT 0, out_attempt INTEGER NOT NULL DEFAULT 0,
	-- and, of a run whose output was cut, what it had written in all
	out_truncated INTEGER NOT NULL DEFAULT 0, out_sha256 TEXT, written_lines INTEGER, written_bytes INTEGER,
	UNIQUE (tenant, execution_id)
);
CREATE INDEX IF NOT EXISTS executions_by_age ON executions (tenant, requested_seq);
CREATE INDEX IF NOT EXISTS executions_by_time ON executions (tenant, requested_at, requested_seq);
CREATE INDEX IF NOT EXISTS executions_by_status ON executions (tenant, status, requested_seq);
CREATE INDEX IF NOT EXISTS executions_by_session ON executions (tenant, session_id, requested_seq) WHERE session_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS executions_by_logical ON executions (tenant, logical_id, requested_seq) WHERE logical_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS executions_by_heap ON executions (tenant, output_heap) WHERE output_heap IS NOT NULL;

-- A row is a chunk of output: its text with line ends, and the level, time and
-- length of each piece. next_line is the number of the line after its last line
-- end. The chunks of an execution have no gap, in the order of seq, the position
-- of their event. A chunk without text has the offset of the next chunk.
CREATE TABLE IF NOT EXISTS output (
	seq INTEGER PRIMARY KEY, execution INTEGER NOT NULL, first_byte INTEGER NOT NULL,
	first_line INTEGER NOT NULL, next_line INTEGER NOT NULL,
	text BLOB NOT NULL, pieces BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS output_by_byte ON output (execution, first_byte);
CREATE INDEX IF NOT EXISTS output_by_line ON output (execution, next_line, first_byte);

CREATE TABLE IF NOT EXISTS heaps (
	tenant TEXT NOT NULL, heap TEXT NOT NULL, seq INTEGER NOT NULL,
	size INTEGER NOT NULL, engine_id TEXT NOT NULL, parent TEXT, execution_id TEXT NOT NULL, created_at INTEGER NOT NULL,
	-- the event since which the heap is collected, and its time; null while it is kept
	collected_seq INTEGER, collected_at INTEGER,
	-- the event that records that the heap was lost; null once a run has left it again
	lost_seq INTEGER,
	PRIMARY KEY (tenant, heap)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS heaps_by_age ON heaps (tenant, seq);
-- The heaps that migrations made of heaps of other engines. engine_id is that of new_heap.
-- The other columns are those of a row of heaps.
CREATE TABLE IF NOT EXISTS migrations (
	seq INTEGER PRIMARY KEY, tenant TEXT NOT NULL, heap TEXT NOT NULL, engine_id TEXT NOT NULL, new_heap TEXT NOT NULL,
	size INTEGER NOT NULL, parent TEXT, execution_id TEXT NOT NULL, created_at INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS migrations_by_heap ON migrations (tenant, heap, engine_id, seq);
CREATE INDEX IF NOT EXISTS migrations_by_result ON migrations (tenant, new_heap, seq);

CREATE TABLE IF NOT EXISTS tag_edits (
	tenant TEXT NOT NULL, heap TEXT NOT NULL, seq INTEGER NOT NULL, effective INTEGER NOT NULL,
	edit TEXT NOT NULL, actor TEXT NOT NULL, tags TEXT NOT NULL, execution_id TEXT, at INTEGER NOT NULL,
	key_id TEXT, -- of the key that encrypts the tags in the ledger
	PRIMARY KEY (tenant, heap, seq)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS tag_edits_by_key ON tag_edits (tenant, key_id) WHERE key_id IS NOT NULL;
-- The tags in force by heap, the position since which they hold, and the key that
-- encrypts them in the ledger.
CREATE TABLE IF NOT EXISTS tagged (
	tenant TEXT NOT NULL, heap TEXT NOT NULL, effective INTEGER NOT NULL, tags TEXT NOT NULL, key_id TEXT,
	PRIMARY KEY (tenant, heap)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS tagged_by_key ON tagged (tenant, key_id) WHERE key_id IS NOT NULL;
-- The tags in force, from the pair to the heaps. A pair is its hash: see pairOf. The key
-- of a heap is stored as bytes, which halves the size of the rows that a query reads.
CREATE TABLE IF NOT EXISTS heap_tags (
	pair BLOB NOT NULL, heap BLOB NOT NULL,
	mask INTEGER NOT NULL, -- of all pairs the heap carries: see maskOf
	PRIMARY KEY (pair, heap)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS entries (
	tenant TEXT NOT NULL, session_id TEXT NOT NULL, idx INTEGER NOT NULL,
	session TEXT NOT NULL, execution_id TEXT NOT NULL, status TEXT NOT NULL,
	input_heap TEXT, output_heap TEXT, completed_at INTEGER NOT NULL,
	PRIMARY KEY (tenant, session_id, idx)
) WITHOUT ROWID;
-- The named sessions that runs were requested in. used_seq is the position of the last request or
-- reset, runs the number of executions, and head the heap that the session continues from.
CREATE TABLE IF NOT EXISTS sessions (
	tenant TEXT NOT NULL, session TEXT NOT NULL, session_id TEXT NOT NULL,
	used_seq INTEGER NOT NULL, runs INTEGER NOT NULL, head TEXT,
	PRIMARY KEY (tenant, session)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS sessions_by_use ON sessions (tenant, used_seq);
CREATE INDEX IF NOT EXISTS sessions_by_id ON sessions (tenant, session_id);
-- Changes of the head of a session of any kind that no run made. turn is the last
-- turn before, or the number of entries of a named session.
CREATE TABLE IF NOT EXISTS session_resets (
	tenant TEXT NOT NULL, session_id TEXT NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL,
	reason TEXT, heap TEXT, turn INTEGER NOT NULL, actor TEXT NOT NULL,
	PRIMARY KEY (tenant, session_id, seq)
) WITHOUT ROWID;
-- Short names of logical sessions.
CREATE TABLE IF NOT EXISTS session_refs (
	tenant TEXT NOT NULL, ref TEXT NOT NULL, session_id TEXT NOT NULL, PRIMARY KEY (tenant, ref, session_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS session_refs_by_session ON session_refs (tenant, session_id);

-- The usage of each tenant: runs that have not ended, bytes of output with artifacts and of heaps, and
-- the number of sessions, contexts, tagged heaps that no run has left, and short names
-- of logical sessions.
CREATE TABLE IF NOT EXISTS tenant_usage (
	tenant TEXT PRIMARY KEY, runs INTEGER NOT NULL, output_bytes INTEGER NOT NULL, heap_bytes INTEGER NOT NULL,
	sessions INTEGER NOT NULL, contexts INTEGER NOT NULL, tagged_heaps INTEGER NOT NULL, short_names INTEGER NOT NULL
) WITHOUT ROWID;

-- Runs whose content is encrypted in the ledger, and the keys that were destroyed.
CREATE TABLE IF NOT EXISTS sealed_runs (
	execution INTEGER PRIMARY KEY, tenant TEXT NOT NULL, key_id TEXT NOT NULL,
	hides_name INTEGER NOT NULL -- whether the name of the file is encrypted too
);
CREATE INDEX IF NOT EXISTS sealed_runs_by_key ON sealed_runs (tenant, key_id);
CREATE TABLE IF NOT EXISTS shreds (
	tenant TEXT NOT NULL, key_id TEXT NOT NULL, label TEXT NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (tenant, key_id)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS unknown_events (seq INTEGER PRIMARY KEY, tenant TEXT NOT NULL, type TEXT NOT NULL, at INTEGER NOT NULL, subject TEXT NOT NULL, body BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS unknown_events_by_tenant ON unknown_events (tenant);
CREATE TABLE IF NOT EXISTS anomalies (seq INTEGER PRIMARY KEY, tenant TEXT NOT NULL, type TEXT NOT NULL, at INTEGER NOT NULL, what TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS anomalies_by_tenant ON anomalies (tenant);
`

// callSchema has a row for each host call. Arguments and result are bodies as recorded,
// or null if the ledger holds only their hashes. The column fetch is an events.FetchRecord as JSON, null
// for the call of a tool, and requests its events.FetchRequests.
const callSchema = `
CREATE TABLE IF NOT EXISTS calls (
	execution INTEGER NOT NULL, number INTEGER NOT NULL, seq INTEGER NOT NULL, attempt INTEGER NOT NULL,
	server TEXT NOT NULL, tool TEXT NOT NULL, arguments_sha256 TEXT NOT NULL, arguments TEXT, called_at INTEGER NOT NULL,
	returned_seq INTEGER, outcome TEXT, duration INTEGER, result_sha256 TEXT, result TEXT, returned_at INTEGER, fetch TEXT, requests TEXT,
	PRIMARY KEY (execution, number)
) WITHOUT ROWID;
`

// agentSchema holds the ACP sessions. Directories and config are JSON as recorded;
// blocks and answer are bodies. cleared_seq is the position of the answer that cleared
// the session: a client that loads the session receives only later prompts.
const agentSchema = `
CREATE TABLE IF NOT EXISTS agent_sessions (
	id INTEGER PRIMARY KEY,
	tenant TEXT NOT NULL, session_id TEXT NOT NULL,
	created_seq INTEGER NOT NULL, updated_seq INTEGER NOT NULL, updated_at INTEGER NOT NULL,
	cwd TEXT NOT NULL, directories TEXT NOT NULL, config TEXT NOT NULL, title TEXT,
	key_id TEXT, -- of the key that encrypts the directories in the ledger
	parent TEXT, parent_seq INTEGER,
	closed INTEGER NOT NULL DEFAULT 0, deleted_seq INTEGER,
	UNIQUE (tenant, session_id)
);
CREATE INDEX IF NOT EXISTS agent_sessions_by_title ON agent_sessions (tenant, title) WHERE title IS NOT NULL;
CREATE INDEX IF NOT EXISTS agent_sessions_by_use ON agent_sessions (tenant, updated_seq) WHERE deleted_seq IS NULL;
CREATE TABLE IF NOT EXISTS agent_prompts (
	seq INTEGER PRIMARY KEY, session INTEGER NOT NULL, prompt_id TEXT NOT NULL, at INTEGER NOT NULL,
	blocks TEXT NOT NULL, title TEXT, execution_id TEXT, answer TEXT,
	-- the keys that encrypt the prompt and the answer in the ledger
	key_id TEXT, answer_key_id TEXT,
	-- the event since which a new client is not told of what came before
	cleared_seq INTEGER
);
CREATE INDEX IF NOT EXISTS agent_prompts_by_session ON agent_prompts (session, seq);
CREATE INDEX IF NOT EXISTS agent_prompts_by_key ON agent_prompts (key_id) WHERE key_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS agent_answers_by_key ON agent_prompts (answer_key_id) WHERE answer_key_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS agent_sessions_by_key ON agent_sessions (tenant, key_id) WHERE key_id IS NOT NULL;
`

// contextSchema has a row for each recorded conversation context, and a row for each of
// their runs that has not ended.
const contextSchema = `
CREATE TABLE IF NOT EXISTS contexts (
	tenant TEXT NOT NULL, context_key TEXT NOT NULL, session_id TEXT NOT NULL, kind TEXT NOT NULL,
	created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, used_at INTEGER NOT NULL,
	running INTEGER NOT NULL, seq INTEGER NOT NULL, empty INTEGER NOT NULL,
	state TEXT NOT NULL, -- contextBody as JSON
	PRIMARY KEY (tenant, context_key)
) WITHOUT ROWID;
-- The contexts that can expire: see IdleContexts.
CREATE INDEX IF NOT EXISTS contexts_by_use ON contexts (used_at, tenant, context_key) WHERE running = 0 AND (empty = 0 OR kind = 'transport');
CREATE TABLE IF NOT EXISTS context_runs (
	tenant TEXT NOT NULL, execution_id TEXT NOT NULL, context_key TEXT NOT NULL,
	since INTEGER NOT NULL, -- created_at of the context when the run was asked for
	PRIMARY KEY (tenant, execution_id)
) WITHOUT ROWID;
`

// logicalSchema holds the logical sessions. The column head is the session head: the
// heap that the next turn would start from now.
const logicalSchema = `
CREATE TABLE IF NOT EXISTS logical_sessions (
	tenant TEXT NOT NULL, session_id TEXT NOT NULL,
	kind TEXT NOT NULL, intent TEXT, intent_sha256 TEXT, actor TEXT NOT NULL, parent TEXT,
	key_id TEXT, -- of the key that encrypts the intent in the ledger
	opened_seq INTEGER NOT NULL, opened_at INTEGER NOT NULL, used_at INTEGER NOT NULL,
	-- the state, which turn left it, and the last turn before a break
	head TEXT, head_turn INTEGER NOT NULL DEFAULT 0, reset_turn INTEGER NOT NULL DEFAULT 0,
	turns INTEGER NOT NULL DEFAULT 0, last_execution TEXT,
	revision INTEGER NOT NULL DEFAULT 0, primary_source TEXT, catalog_sha256 TEXT, broken TEXT,
	-- the number of executions, and the position of the last use, which is null while no list has
	-- the session: before an ACP session is created, and after it is deleted
	runs INTEGER NOT NULL DEFAULT 0, used_seq INTEGER,
	PRIMARY KEY (tenant, session_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS logical_sessions_by_use ON logical_sessions (tenant, kind, used_seq) WHERE used_seq IS NOT NULL;
CREATE INDEX IF NOT EXISTS logical_sessions_by_intent ON logical_sessions (tenant, intent) WHERE intent IS NOT NULL;
CREATE INDEX IF NOT EXISTS logical_sessions_by_key ON logical_sessions (tenant, key_id) WHERE key_id IS NOT NULL;
CREATE UNIQUE INDEX IF NOT EXISTS logical_sessions_by_age ON logical_sessions (tenant, opened_seq);
-- The events that named the intent of a session, each before the session was opened.
CREATE TABLE IF NOT EXISTS named_intents (
	tenant TEXT NOT NULL, session_id TEXT NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (tenant, session_id)
) WITHOUT ROWID;
-- The catalog entries that a session got since its last break.
CREATE TABLE IF NOT EXISTS taught (
	tenant TEXT NOT NULL, session_id TEXT NOT NULL, n INTEGER NOT NULL,
	symbol TEXT NOT NULL, entry TEXT NOT NULL, sha256 TEXT NOT NULL,
	PRIMARY KEY (tenant, session_id, n)
) WITHOUT ROWID;
`
