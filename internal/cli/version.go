package cli

import (
	"context"
	"fmt"
	"runtime/debug"

	"daybook/embed"
	"daybook/events"
)

type versionCmd struct {
	JSON bool `help:"Print JSON."`
}

// Run prints the versions of the program, of V8 and of the stored formats.
func (c *versionCmd) Run(ctx context.Context, std *streams) error {
	v, err := embed.Versions(ctx)
	if err != nil {
		return err
	}
	v.Daybook = version()
	if c.JSON {
		return std.out.PrintJSON(v)
	}
	fmt.Fprintf(std.out, "daybook           %s\n", v.Daybook)
	fmt.Fprintf(std.out, "V8                %s\n", v.V8)
	fmt.Fprintf(std.out, "engine            %s\n", v.EngineID)
	fmt.Fprintf(std.out, "snapshot format   %d\n", v.SnapshotFormat)
	fmt.Fprintf(std.out, "projection schema %d\n", v.ProjectionSchema)
	fmt.Fprintf(std.out, "event types       %d, CloudEvents 1.0\n", len(events.Types()))
	return nil
}

// version returns the version that the Go toolchain recorded in the build: that of the
// module, which contains the commit in a checkout, else the commit, else "devel", as
// with "go run".
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	return versionOf(info)
}

func versionOf(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	commit := settings["vcs.revision"]
	if commit == "" {
		return "devel"
	}
	text := "devel-" + shortHash(commit)
	if settings["vcs.modified"] == "true" {
		text += "+dirty"
	}
	return text
}
