package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"daybook/internal/cli/terminal"
	"daybook/internal/web/client"
)

type execArtifactsCmd struct {
	clientFlags
	oneExecution
	Save string `help:"Directory to write the artifacts to; created if it does not exist." placeholder:"DIR" type:"path"`
}

// Help is shown by "daybook exec artifacts --help".
func (c *execArtifactsCmd) Help() string {
	return "Lists what the script passed to artifact(name, mime, bytes). With --save the artifacts are also written to files in DIR, the last of each name. " +
		"Characters of a name that a file name cannot have become _, and an existing file is never overwritten."
}

// Run lists the artifacts of an execution, and writes them to files with --save.
func (c *execArtifactsCmd) Run(ctx context.Context, std *streams) error {
	id, err := c.execution(ctx, c.ID)
	if err != nil {
		return err
	}
	answer, err := c.api().Artifacts(ctx, id)
	if err != nil {
		return err
	}
	if c.Save != "" {
		if err := os.MkdirAll(c.Save, 0o755); err != nil {
			return fmt.Errorf("create the directory of the artifacts: %w", err)
		}
		for _, a := range answer.Body.Artifacts {
			if a.IsReplaced {
				continue
			}
			if err := c.save(ctx, std, id, a); err != nil {
				return err
			}
		}
	}
	if c.JSON {
		return std.out.WriteJSON(compact(answer.JSON))
	}
	w := terminal.Table(std.out, "ARTIFACT", "NAME", "TYPE", "BYTES", "SHA-256", "REPLACED")
	for _, a := range answer.Body.Artifacts {
		replaced := "-"
		if a.IsReplaced {
			replaced = "by a later one"
		}
		w.Row(a.Number, fmt.Sprintf("%q", a.Name), terminal.OneLine(a.MIME, 60), a.Size, a.SHA256[:min(12, len(a.SHA256))], replaced)
	}
	return w.Flush()
}

// save writes an artifact to a file that did not exist. It writes to a temporary name first.
func (c *execArtifactsCmd) save(ctx context.Context, std *streams, id string, a client.Artifact) (err error) {
	path := filepath.Join(c.Save, artifactFile(a))
	wrap := func(err error) error { return fmt.Errorf("save artifact %d (%q): %w", a.Number, a.Name, err) }
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return wrap(fmt.Errorf("%s exists; remove it, or choose another directory", path))
	}
	if err != nil {
		return wrap(err)
	}
	defer func() {
		if err = cmp.Or(err, f.Close()); err != nil {
			_ = os.Remove(path) // it lacks a part
			err = wrap(err)
		}
	}()
	content, err := c.api().Artifact(ctx, id, a.Name, a.Number)
	if err != nil {
		return err
	}
	defer content.Close()
	n, err := io.Copy(f, content)
	if err == nil && n != a.Size {
		err = fmt.Errorf("the server sent %d bytes of %d", n, a.Size)
	}
	if err == nil {
		_, err = fmt.Fprintf(std.err, "saved %s\n", terminal.OneLine(path, 400))
	}
	return err
}

// artifactFile returns the name of a file for an artifact. A script chose the name: the file
// is always directly in the directory.
func artifactFile(a client.Artifact) string {
	name := strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f || strings.ContainsRune(`/\:*?"<>|`, r) {
			return '_'
		}
		return r
	}, a.Name)
	if len(name) > 200 {
		name = strings.ToValidUTF8(name[:200], "")
	}
	if name == "" || strings.Trim(name, ".") == "" {
		name = fmt.Sprintf("artifact-%d", a.Number)
	}
	return name
}
