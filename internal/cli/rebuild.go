package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"daybook/embed"
	"daybook/internal/cli/terminal"
)

type rebuildCmd struct {
	DataDir     string `help:"Directory of the ledger." default:"${datadir}" placeholder:"DIR"`
	NATSURL     string `name:"nats-url" help:"URL of the outside NATS server or cluster that stores the ledger." placeholder:"URL"`
	KeyDir      string `name:"key-dir" help:"Directory of the content keys, if it moved since the server ran." placeholder:"DIR"`
	FromStart   bool   `name:"from-start" xor:"from" help:"Begin with the first event, not with a projection copy, and compare the old projections and each copy with the result, row by row. Exit with status 1 if one differs."`
	WithoutKeys bool   `name:"without-keys" xor:"from" help:"Omit content whose keys are lost. Without it the rebuild is refused, because the projections may have the only copy of the content."`
}

// Run rebuilds the projections in new files and replaces the old ones. It takes over from a
// background owner; attached clients start the next one.
func (c *rebuildCmd) Run(ctx context.Context, std *streams) error {
	start := time.Now()
	p := terminal.NewProgress(std.err, "rebuilt")
	rebuild := embed.Rebuild
	if c.FromStart {
		rebuild = embed.RebuildFromStart
	}
	r, err := rebuild(ctx, embed.Options{
		DataDir: c.DataDir, NATS: embed.NATSOptions{URL: c.NATSURL}, Owner: embed.OwnerOptions{TakeOver: true, Notice: func(text string) { fmt.Fprintln(std.err, "daybook:", text) }}, Content: embed.ContentOptions{KeyDir: c.KeyDir, WithoutKeys: c.WithoutKeys}, Progress: p.Show,
	})
	p.Clear()
	if err != nil {
		return optionError(err)
	}
	took := time.Since(start).Round(time.Millisecond)
	if r.From > 0 {
		fmt.Fprintf(std.out, "Rebuilt the projections from their copy as of %d and %s in %s.\n", r.From, terminal.CountNoun(r.Events-r.From, "event"), took)
	} else {
		fmt.Fprintf(std.out, "Rebuilt the projections from %s in %s.\n", terminal.CountNoun(r.Events, "event"), took)
	}
	return printComparisons(std.out, r.Compared)
}

// printComparisons prints how files differ from those that were built from the first event. It
// returns an error if one differs.
func printComparisons(out *terminal.Screen, list []embed.Comparison) error {
	var different []string
	for _, c := range list {
		switch {
		case c.Skipped != "":
			out.Printf("%s was not compared: %s.\n", c.File, terminal.OneLine(c.Skipped, 200))
		case c.Different == 0:
			out.Printf("%s as of %d is equal: %s.\n", c.File, c.Position, terminal.CountNoun(c.Rows, "row"))
		default:
			different = append(different, c.File)
			out.Printf("%s as of %d differs in %d of %s:\n", c.File, c.Position, c.Different, terminal.CountNoun(c.Rows, "row"))
			for _, d := range c.First {
				out.Printf("  %s %s: %s\n", d.Table, terminal.OneLine(d.Row, 200), differenceText(d))
			}
		}
	}
	if len(different) > 0 {
		return fmt.Errorf("%s differed from what the events give; the projections are replaced, and copies that differed are deleted", strings.Join(different, ", "))
	}
	return nil
}

func differenceText(d embed.Difference) string {
	switch {
	case d.OnlyRebuilt:
		return "missing"
	case d.OnlyCompared:
		return "of no event"
	default:
		return "another " + strings.Join(d.Columns, ", ")
	}
}
