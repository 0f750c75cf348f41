package cli

import "daybook/embed"

// mcpFlags are the flags of embed.MCPOptions.
type mcpFlags struct {
	SessionID        string `name:"session-id" option:"MCP.SessionID" help:"Named session to log runs over stdio MCP under." placeholder:"NAME"`
	Instructions     string `name:"instructions" option:"MCP.Instructions" help:"Instructions for MCP clients, in place of the usual ones." placeholder:"TEXT"`
	RunJSDescription string `name:"run-js-description" option:"MCP.RunJSDescription" help:"Description of the run_js tool, in place of the usual one." placeholder:"TEXT"`
}

func (f mcpFlags) options() embed.MCPOptions {
	return embed.MCPOptions{SessionID: f.SessionID, Instructions: f.Instructions, RunJSDescription: f.RunJSDescription}
}
