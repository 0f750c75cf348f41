package cli

import (
	"context"
	"fmt"
	"strconv"

	"daybook/embed"
	"daybook/internal/cli/terminal"
)

type volumeCmd struct {
	List   volumeListCmd   `cmd:"" help:"List the volumes of the ledger."`
	Seal   volumeSealCmd   `cmd:"" help:"Seal the active volume and open the next one."`
	Export volumeExportCmd `cmd:"" help:"Export a sealed volume to a verifiable directory."`
	Remove volumeRemoveCmd `cmd:"" help:"Remove the oldest volume, which must be exported."`
}

type volumeListCmd struct{ clientFlags }

// Run prints one volume per line, oldest first.
func (c *volumeListCmd) Run(ctx context.Context, std *streams) error {
	answer, err := c.api().Volumes(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return std.out.WriteJSON(compact(answer.JSON))
	}
	w := terminal.Table(std.out, "VOLUME", "FIRST", "LAST", "BYTES", "STATE", "FIRST EVENT", "LAST EVENT")
	for _, v := range answer.Body.Volumes {
		state := "active"
		switch {
		case v.Archived:
			state = "archived"
		case v.Sealed:
			state = "sealed"
		}
		size := "-"
		if v.Bytes != nil {
			size = strconv.FormatUint(*v.Bytes, 10)
		}
		w.Row(v.Volume, v.First, v.Last, size, state, orDash(v.FirstAt), orDash(v.LastAt))
	}
	return w.Flush()
}

type volumeSealCmd struct{ clientFlags }

// Help is shown by "daybook volume seal --help".
func (c *volumeSealCmd) Help() string {
	return "The server seals volumes automatically, each month, above a size and above a number of executions (serve --seal-every, --seal-bytes, --seal-executions). Active runs continue in the next volume. Sealing cannot be undone."
}

// Run seals the active volume and prints its positions.
func (c *volumeSealCmd) Run(ctx context.Context, std *streams) error {
	answer, err := c.api().Seal(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return std.out.WriteJSON(compact(answer.JSON))
	}
	v := answer.Body
	_, err = fmt.Fprintf(std.out, "Sealed volume %d, positions %d to %d. The next one begins at %d.\n", v.Volume, v.First, v.Last, v.Last+1)
	return err
}

type volumeExportCmd struct {
	clientFlags
	Volume int    `arg:"" help:"Number of the volume." placeholder:"VOLUME"`
	Dir    string `arg:"" help:"Directory to create." placeholder:"DIR"`
	Heaps  bool   `help:"Include heaps, and texts that are too large for their events. Heaps of erasable sessions are included unencrypted: shredding does not reach them."`
	Resume bool   `help:"Continue an unfinished export."`
}

// Help is shown by "daybook volume export --help".
func (c *volumeExportCmd) Help() string {
	return "The same as \"daybook events export\" from the volume's first position to its last, or to the event that records the losses in the volume. Verify the export without the server with \"daybook verify --export DIR\" or with examples/verify-python."
}

// Run exports the positions of the volume.
func (c *volumeExportCmd) Run(ctx context.Context, std *streams) error {
	answer, err := c.api().Volumes(ctx)
	if err != nil {
		return err
	}
	for _, v := range answer.Body.Volumes {
		switch {
		case v.Volume != c.Volume:
		case !v.Sealed:
			return usageError{fmt.Errorf("volume %d is the active volume; seal it first with \"daybook volume seal\", or export its present events with \"daybook events export\"", v.Volume)}
		default:
			export := eventsExportCmd{clientFlags: c.clientFlags, Dir: c.Dir, From: position(v.First), To: position(v.Last), Heaps: c.Heaps, Resume: c.Resume, withLosses: true}
			return export.Run(ctx, std)
		}
	}
	return usageError{fmt.Errorf("volume %d does not exist; \"daybook volume list\" lists volumes", c.Volume)}
}

type volumeRemoveCmd struct {
	clientFlags
	Volume int      `arg:"" help:"Number of the volume, the oldest one." placeholder:"VOLUME"`
	Export string   `required:"" help:"Directory of an export of exactly this volume, which is verified first." placeholder:"DIR" env:"-"`
	Keys   []string `name:"key" sep:"none" help:"Verification key for the export, as in the file audit/vkey, or a file of keys; may be repeated." placeholder:"KEY"`
}

// Help is shown by "daybook volume remove --help".
func (c *volumeRemoveCmd) Help() string {
	return "The server computes the same export again and compares its hash. It refuses while the volume is needed, and lists the reasons. Kept events, on which later state depends, stay on the server; of all others it keeps only the hashes, " +
		"so that all proofs remain valid. Removal cannot be undone: keep the export, and copies of the directory \"audit\", without which the hashes of the removed events are lost."
}

// Run verifies the export and removes the volume.
func (c *volumeRemoveCmd) Run(ctx context.Context, std *streams) error {
	keys, err := readVKeys("--key", c.Keys)
	if err != nil {
		return err
	}
	if err := checkExportDir("--export", c.Export); err != nil {
		return err
	}
	report, err := embed.Verify(ctx, embed.VerifyOptions{Export: c.Export, Keys: keys})
	if err != nil {
		return optionError(err)
	}
	if !report.OK && report.Verdict != embed.Unauthenticated { // the server compares the export with its own events
		fmt.Fprint(std.err, report)
		return fmt.Errorf("the export in %s does not verify: nothing was removed", c.Export)
	}
	sha, err := embed.ExportHash(c.Export)
	if err != nil {
		return inputError(err)
	}
	answer, err := c.api().Remove(ctx, c.Volume, sha)
	if err != nil {
		return err
	}
	if c.JSON {
		return std.out.WriteJSON(compact(answer.JSON))
	}
	v := answer.Body
	_, err = fmt.Fprintf(std.out, "Removed volume %d, positions %d to %d, by event %d. Events of all removed volumes that are kept because later state depends on them: %d.\n", v.Volume, v.First, v.Last, v.Sequence, v.KeptEvents)
	return err
}
