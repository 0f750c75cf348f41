package cli

import (
	"io"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/alecthomas/kong"

	"daybook/embed"
)

// engineFlags are the flags of the commands that own a ledger. Its groups are in
// flags_*.go. Tags connect a flag to embed.Options:
//
//   - option: the field of embed.Options
//   - example: a value for messages. Default: the default of the flag
//   - mib: the flag is in MiB, the field in bytes
//   - after: the flag that precedes it in the help
type engineFlags struct {
	DataDir string `name:"data-dir" option:"DataDir" help:"Directory of the ledger and of all data derived from it." default:"${datadir}" placeholder:"DIR"`
	slotFlags
	runFlags
	resourceFlags
	workerFlags
	toolFlags
	fetchFlags
	contextFlags
	mcpFlags
	proofFlags
	LogLevel string `name:"log-level" help:"Least severe level of log records written to stderr: ${enum}." enum:"debug,info,warn,error" default:"warn"`
}

func (f engineFlags) options(log io.Writer) embed.Options {
	var level slog.Level
	_ = level.UnmarshalText([]byte(f.LogLevel)) // kong has checked the value
	return embed.Options{
		DataDir:   f.DataDir,
		Version:   version(),
		Logger:    slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: level})),
		Slots:     f.slotFlags.options(),
		Runs:      f.runFlags.options(),
		Resources: f.resourceFlags.options(),
		Workers:   f.workerFlags.options(),
		Tools:     f.toolFlags.options(),
		Fetch:     f.fetchFlags.options(),
		Contexts:  f.contextFlags.options(),
		MCP:       f.mcpFlags.options(),
		Proof:     f.proofFlags.options(),
	}
}

// On the command line 0 is a value of its own. In embed.Options it means the default,
// and a negative number means none.

// optional returns the option of a flag without a default, for which 0 is not permitted.
// Without the flag it returns 0, which selects the default of embed.Options.
func optional(flag *int) int {
	if flag == nil {
		return 0
	}
	return refuseZero(*flag)
}

// refuseZero returns the option of a flag for which 0 is not permitted. 0 becomes -1,
// which embed.Options refuses if a negative number has no meaning.
func refuseZero[T int | int64 | time.Duration](value T) T {
	if value == 0 {
		return -1
	}
	return value
}

// zeroIsNone returns the option of a flag for which 0 means none: 0 becomes -1. A negative
// value becomes a value that embed.Options refuses.
func zeroIsNone[T int | int64 | time.Duration](value T) T {
	if value < 0 {
		return math.MaxInt64
	}
	return refuseZero(value)
}

// orderFlags moves the flags with the tag "after", so that the order of the help does
// not depend on the groups.
func orderFlags(k *kong.Kong) error {
	for _, command := range k.Model.Children {
		for _, f := range slices.Clone(command.Flags) {
			after := f.Tag.Get("after")
			if after == "" {
				continue
			}
			flags := slices.DeleteFunc(command.Flags, func(g *kong.Flag) bool { return g == f })
			at := slices.IndexFunc(flags, func(g *kong.Flag) bool { return g.Name == after })
			command.Flags = slices.Insert(flags, at+1, f)
		}
	}
	return nil
}
