package events

// AgentMode selects the tools that scripts in an ACP session may call. The tools are those
// of the MCP servers that the client provided.
type AgentMode string

// The modes of an ACP session.
const (
	// AgentModeAsk asks the client before a destructive tool is called.
	AgentModeAsk AgentMode = "ask"
	// AgentModeAuto calls every tool without asking.
	AgentModeAuto AgentMode = "auto"
	// AgentModeReadOnly calls only tools that declare themselves read-only.
	AgentModeReadOnly AgentMode = "readonly"
)

// AgentConfig holds the settings under which the prompts of an ACP session run.
type AgentConfig struct {
	// Mode states which tools may be called.
	Mode AgentMode `json:"mode"`
	// HeapMemoryMaxMB (in MiB) and ExecutionTimeoutSecs (in seconds) limit each
	// execution; 0 means the default of the server.
	HeapMemoryMaxMB      int `json:"heap_memory_max_mb,omitempty"`
	ExecutionTimeoutSecs int `json:"execution_timeout_secs,omitempty"`
}

// AgentWorkspace names the directories that a client works in, on its machine.
type AgentWorkspace struct {
	// Cwd is the working directory, an absolute path.
	Cwd string `json:"cwd"`
	// AdditionalDirectories are further roots, absolute paths in the client's order.
	AdditionalDirectories []string `json:"additional_directories,omitempty"`
}

// AgentFork names the session that a session was forked from.
type AgentFork struct {
	// SessionID is the original session, and Position the position of the last event
	// that both have in common.
	SessionID string `json:"session_id"`
	Position  uint64 `json:"position"`
}

// AgentSessionCreated records that an ACP session was created.
//
// Appended when a client creates a session or forks one, after the session.opened event
// of the same id.
type AgentSessionCreated struct {
	// SessionID is the id of the session.
	SessionID string `json:"session_id"`
	// Content is the workspace of the client.
	Content Content[AgentWorkspace] `json:"content"`
	// Config is the initial configuration of the session.
	Config AgentConfig `json:"config"`
	// Servers are the names of the MCP servers that the client provided. Their addresses
	// and commands are not recorded because they can contain secrets.
	Servers []string `json:"servers,omitempty"`
	// Fork is the session that this one was forked from; nil if it was not forked.
	Fork *AgentFork `json:"fork,omitempty"`
	// Actor created it.
	Actor Actor `json:"actor"`
}

// AgentSessionAttached records that a client loaded or resumed an ACP session.
//
// Appended when a client loads or resumes a session. The directories and servers of this
// event replace earlier ones.
type AgentSessionAttached struct {
	// SessionID is the id of the session.
	SessionID string `json:"session_id"`
	// Replayed is true when the client loaded the session: it is sent the conversation after
	// this event, from the last answer that cleared it. It is false when the client resumed
	// the session.
	Replayed bool `json:"replayed"`
	// Content is the current workspace of the client.
	Content Content[AgentWorkspace] `json:"content"`
	// Servers are the names of the MCP servers that the client provided.
	Servers []string `json:"servers,omitempty"`
	// Actor loaded or resumed it.
	Actor Actor `json:"actor"`
}

// AgentSessionConfigured records that the configuration of an ACP session was changed.
//
// Appended when a client sets a mode or an option.
type AgentSessionConfigured struct {
	// SessionID is the id of the session.
	SessionID string `json:"session_id"`
	// Config is the new configuration.
	Config AgentConfig `json:"config"`
	// Actor changed it.
	Actor Actor `json:"actor"`
}

// AgentPrompted records a prompt that a user sent in an ACP session.
//
// Appended when a prompt is received, before it is handled.
type AgentPrompted struct {
	// SessionID is the id of the session.
	SessionID string `json:"session_id"`
	// PromptID is the prompt's id, a UUID.
	PromptID string `json:"prompt_id"`
	// Content is the prompt.
	Content Content[PromptContent] `json:"content"`
	// ExecutionID is the execution that the prompt starts; empty for a command such as
	// /clear, which starts none. If the execution was never requested, the prompt was
	// interrupted before that.
	ExecutionID string `json:"execution_id,omitempty"`
	// Actor sent it.
	Actor Actor `json:"actor"`
}

// PromptContent is the erasable part of AgentPrompted.
type PromptContent struct {
	// Blocks are the content blocks of the prompt, a JSON array as received.
	Blocks Body `json:"blocks"`
	// Title is the title that the session gets from its first prompt.
	Title string `json:"title,omitempty"`
}

// AgentAnswered records the answer to a prompt that was a command, such as /clear. A command
// runs no script.
//
// Appended after the command was carried out.
type AgentAnswered struct {
	// SessionID is the id of the session.
	SessionID string `json:"session_id"`
	// PromptID is the prompt that contains the command.
	PromptID string `json:"prompt_id"`
	// Content is the answer.
	Content Content[AnswerContent] `json:"content"`
	// Cleared is true when the command cleared the conversation: clients that load the
	// session later receive only what follows this event.
	Cleared bool `json:"cleared,omitempty"`
}

// AnswerContent is the erasable part of AgentAnswered.
type AnswerContent struct {
	// Text is human-readable Markdown.
	Text Body `json:"text"`
}

// AgentPermissionDecided records whether a script in an ACP session was allowed to call a
// tool.
//
// Appended when the mode forbids a call, and in mode ask for each call of a destructive tool,
// once the decision is known: the client answers now, or has answered for the whole session.
// The tool is called, or the call refused, after this event. Calls that the mode allows
// without asking are not recorded here.
type AgentPermissionDecided struct {
	// SessionID is the id of the session.
	SessionID string `json:"session_id"`
	// ExecutionID is the execution that called the tool.
	ExecutionID string `json:"execution_id"`
	// Server and Tool name the tool.
	Server string `json:"server"`
	Tool   string `json:"tool"`
	// Outcome is "allowed", "allowed_always", "rejected", "rejected_always", "cancelled" if
	// the client answered so or could not be asked any more, because its prompt or the run
	// had ended, or "forbidden" if the mode forbids the call.
	Outcome string `json:"outcome"`
	// Mode is the mode of the session.
	Mode AgentMode `json:"mode"`
	// Actor decided it.
	Actor Actor `json:"actor"`
}

// AgentSessionClosed records that a client closed an ACP session. A client can load or
// resume it later.
//
// Appended when a client closes a session that it, or another client of the same process,
// has open.
type AgentSessionClosed struct {
	// SessionID is the id of the session.
	SessionID string `json:"session_id"`
	// Actor closed it.
	Actor Actor `json:"actor"`
}

// AgentSessionDeleted records that an ACP session was removed from the list of sessions.
// Its events stay in the ledger.
//
// Appended when a client deletes a session. It is the last event on the session's subject
// for ACP events; other events about the session can follow.
type AgentSessionDeleted struct {
	// SessionID is the id of the session.
	SessionID string `json:"session_id"`
	// Actor deleted it.
	Actor Actor `json:"actor"`
}
