package embed

import (
	"errors"

	"daybook/internal/tools/toolserver"
)

// ToolServer is the configuration of one tool server.
type ToolServer = toolserver.Config

// ToolOptions configure the tools that scripts may call.
type ToolOptions struct {
	// Servers are the tool servers that scripts may call; see ReadMCPServers. Commands
	// among them run as children of this process, without a sandbox.
	Servers []ToolServer
	// Bodies selects what is recorded of the arguments and results of host calls:
	// "full", the default, or only the "hash" of each, which cannot be replayed.
	Bodies string
}

// validate returns the errors of the fields.
func (o ToolOptions) validate() error {
	var problem error
	if o.Bodies != "" && o.Bodies != hostCallsFull && o.Bodies != hostCallsHashed {
		problem = fieldIs("Tools.Bodies", "%q: choose %s or %s", o.Bodies, hostCallsFull, hostCallsHashed)
	}
	return errors.Join(ofField("Tools.Servers", toolserver.CheckAll(o.Servers)), problem)
}
