package embed

import (
	"daybook/ledger"
	"daybook/mcp"
)

// MCPOptions configure the MCP interface.
type MCPOptions struct {
	// SessionID is the named session of runs over stdio.
	SessionID string
	// Instructions and RunJSDescription replace the texts for clients.
	Instructions     string
	RunJSDescription string
	// Fixtures are tools beside those of the product, for a test suite of MCP.
	// Default: none.
	Fixtures *mcp.Fixtures
}

// validate returns the errors of the fields.
func (o MCPOptions) validate() error {
	if o.SessionID == "" {
		return nil
	}
	return ofField("MCP.SessionID", ledger.CheckSession(o.SessionID))
}
