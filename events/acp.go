package events

// AgentMode says what code in a session of the Agent Client Protocol may do with
// the tools that its client brought along.
type AgentMode string

// The modes.
const (
	// AgentAsks has the client asked before a tool that may destroy something is
	// called.
	AgentAsks AgentMode = "ask"
	// AgentActs calls every tool without asking.
	AgentActs AgentMode = "auto"
	// AgentReads calls only tools that say that they change nothing.
	AgentReads AgentMode = "readonly"
)

// AgentConfig is how the prompts of a session are run.
type AgentConfig struct {
	// Mode says what tools may be called.
	Mode AgentMode `json:"mode"`
	// HeapMemoryMaxMB and ExecutionTimeoutSecs limit each run; 0 leaves that to the
	// server.
	HeapMemoryMaxMB      int `json:"heap_memory_max_mb,omitempty"`
	ExecutionTimeoutSecs int `json:"execution_timeout_secs,omitempty"`
}

// AgentWorkspace is where on its machine a client works.
type AgentWorkspace struct {
	// Cwd is the working directory, an absolute path.
	Cwd string `json:"cwd"`
	// AdditionalDirectories are further roots, absolute paths in the client's order.
	AdditionalDirectories []string `json:"additional_directories,omitempty"`
}

// AgentFork is what a session was split off from.
type AgentFork struct {
	// SessionID is the session, and Position the last event of the ledger that
	// belongs to what both have in common.
	SessionID string `json:"session_id"`
	Position  uint64 `json:"position"`
}

// AgentSessionCreated records that a session of the Agent Client Protocol began.
//
// Appended when a client asks for a new session, or for one split off from
// another, after the session.opened event of the same id.
type AgentSessionCreated struct {
	// SessionID is the session's key.
	SessionID string `json:"session_id"`
	// Content is where the client works.
	Content Content[AgentWorkspace] `json:"content"`
	// Config is what the session starts with.
	Config AgentConfig `json:"config"`
	// Servers are the names of the MCP servers that the client brought along. How
	// they are reached is on no record, since that tells secrets.
	Servers []string `json:"servers,omitempty"`
	// Fork is what the session was split off from; nil for a new one.
	Fork *AgentFork `json:"fork,omitempty"`
	// Actor asked for it.
	Actor Actor `json:"actor"`
}

// AgentSessionAttached records that a client took a session up again.
//
// Appended when a client loads or resumes a session. What it says of directories
// and servers replaces what held before.
type AgentSessionAttached struct {
	// SessionID is the session's key.
	SessionID string `json:"session_id"`
	// Replayed is true when the client was told the whole conversation again.
	Replayed bool `json:"replayed"`
	// Content is where the client works now.
	Content Content[AgentWorkspace] `json:"content"`
	// Servers are the names of the MCP servers that the client brought along.
	Servers []string `json:"servers,omitempty"`
	// Actor is who it was.
	Actor Actor `json:"actor"`
}

// AgentSessionConfigured records that a session's settings were changed.
//
// Appended when a client sets a mode or an option.
type AgentSessionConfigured struct {
	// SessionID is the session's key.
	SessionID string `json:"session_id"`
	// Config holds from here on.
	Config AgentConfig `json:"config"`
	// Actor changed it.
	Actor Actor `json:"actor"`
}

// AgentPrompted records a prompt: what a user sent in a session.
//
// Appended when a prompt is received, before anything is done about it.
type AgentPrompted struct {
	// SessionID is the session's key.
	SessionID string `json:"session_id"`
	// PromptID is the prompt's id, a UUID.
	PromptID string `json:"prompt_id"`
	// Content is the prompt.
	Content Content[PromptContent] `json:"content"`
	// ExecutionID is the run that the prompt asks for; empty for a command to the
	// session itself. A run that was never requested was interrupted before that.
	ExecutionID string `json:"execution_id,omitempty"`
	// Actor sent it.
	Actor Actor `json:"actor"`
}

// PromptContent is the erasable part of AgentPrompted.
type PromptContent struct {
	// Blocks are the content blocks of the prompt, a JSON array as received.
	Blocks Body `json:"blocks"`
	// Title is what the session is called after its first prompt.
	Title string `json:"title,omitempty"`
}

// AgentAnswered records the answer to a command to the session itself.
//
// Appended when the command was carried out.
type AgentAnswered struct {
	// SessionID is the session's key.
	SessionID string `json:"session_id"`
	// PromptID is the prompt that held the command.
	PromptID string `json:"prompt_id"`
	// Content is the answer.
	Content Content[AnswerContent] `json:"content"`
	// Cleared is true when a later client is told only what follows.
	Cleared bool `json:"cleared,omitempty"`
}

// AnswerContent is the erasable part of AgentAnswered.
type AnswerContent struct {
	// Text is for people, in Markdown.
	Text Body `json:"text"`
}

// AgentPermissionDecided records whether code was let call a tool.
//
// Appended when the client was asked, or the session's mode forbids the call,
// before the call is made or refused.
type AgentPermissionDecided struct {
	// SessionID is the session's key.
	SessionID string `json:"session_id"`
	// ExecutionID is the run that called.
	ExecutionID string `json:"execution_id"`
	// Server and Tool name what was called.
	Server string `json:"server"`
	Tool   string `json:"tool"`
	// Outcome is "allowed", "allowed_always", "rejected", "rejected_always",
	// "cancelled" when the client took the question back, or "forbidden" by the mode.
	Outcome string `json:"outcome"`
	// Mode is the session's mode.
	Mode AgentMode `json:"mode"`
	// Actor decided it.
	Actor Actor `json:"actor"`
}

// AgentSessionClosed records that a client put a session away. It can be taken up
// again.
//
// Appended when a client closes a session that it has open.
type AgentSessionClosed struct {
	// SessionID is the session's key.
	SessionID string `json:"session_id"`
	// Actor closed it.
	Actor Actor `json:"actor"`
}

// AgentSessionDeleted records that a session is not to be found any more. What it
// did stays on record.
//
// Appended when a client deletes a session. Nothing about the session follows.
type AgentSessionDeleted struct {
	// SessionID is the session's key.
	SessionID string `json:"session_id"`
	// Actor deleted it.
	Actor Actor `json:"actor"`
}
