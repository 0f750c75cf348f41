package cli

import (
	"context"
	"fmt"

	"daybook/embed"
	"daybook/events"
)

type versionCmd struct {
	JSON bool `help:"Print JSON instead of text for people."`
}

// Run prints the versions of the program, of V8 and of what is stored.
func (c *versionCmd) Run(ctx context.Context, std *streams) error {
	v, err := embed.Versions(ctx)
	if err != nil {
		return err
	}
	v.Daybook = version()
	if c.JSON {
		return printJSON(std.out, v)
	}
	fmt.Fprintf(std.out, "daybook           %s\n", v.Daybook)
	fmt.Fprintf(std.out, "V8                %s\n", v.V8)
	fmt.Fprintf(std.out, "engine            %s\n", v.EngineID)
	fmt.Fprintf(std.out, "snapshot format   %d\n", v.SnapshotFormat)
	fmt.Fprintf(std.out, "projection schema %d\n", v.ProjectionSchema)
	fmt.Fprintf(std.out, "event types       %d, CloudEvents 1.0\n", len(events.Types()))
	return nil
}
