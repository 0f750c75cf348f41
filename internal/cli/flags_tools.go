package cli

import "daybook/embed"

// toolFlags are the flags of embed.ToolOptions.
type toolFlags struct {
	MCPServers     []string `name:"mcp-server" option:"Tools.Servers" sep:"none" help:"MCP server whose tools scripts may call, as name=command with arguments or name=https://host/path; may be repeated." placeholder:"NAME=COMMAND|URL"`
	MCPConfig      string   `name:"mcp-config" help:"File of MCP servers that scripts may call, in the mcpServers form of MCP clients; $${NAME} is replaced from the environment." placeholder:"FILE"`
	HostCallBodies string   `name:"host-call-bodies" option:"Tools.Bodies" help:"Recorded part of host calls: arguments and results (full), or only their hashes (hash)." enum:"full,hash" default:"full"`
}

func (f toolFlags) options() embed.ToolOptions { return embed.ToolOptions{Bodies: f.HostCallBodies} }

// readServers sets the tool servers. It reads the file of --mcp-config.
func (f toolFlags) readServers(o *embed.Options) error {
	servers, err := embed.ReadMCPServers(f.MCPServers, f.MCPConfig)
	if err != nil {
		return usageError{err}
	}
	o.Tools.Servers = servers
	return nil
}
