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
	"slices"
	"strconv"
	"strings"

	"daybook/internal/cli/terminal"
	"daybook/internal/web/client"
)

type execArtifactsCmd struct {
	clientFlags
	oneExecution
	Save      string `help:"Directory to write the artifacts to; created if it does not exist." placeholder:"DIR" type:"path"`
	Overwrite bool   `help:"Replace existing files in the directory of --save."`
}

// Help is shown by "daybook exec artifacts --help".
func (c *execArtifactsCmd) Help() string {
	return "Lists what the script passed to artifact(name, mime, bytes). With --save the artifacts are also written to files in DIR, the last of each name. " +
		"Characters of a name that a file name cannot have become _. Of names that give the same file name, with letter case ignored, the later ones get a number, such as plot-2.svg. " +
		"If one of the files exists, nothing is written, unless --overwrite is given."
}

// Validate checks that --overwrite has files to write.
func (c *execArtifactsCmd) Validate() error {
	if c.Overwrite && c.Save == "" {
		return errors.New("--overwrite needs --save DIR")
	}
	return c.clientFlags.Validate()
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
		if err := c.save(ctx, std, id, answer.Body.Artifacts); err != nil {
			return err
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

// save writes the artifacts that are the last of their name to files. It downloads all before
// the first file appears, so that an error leaves none.
func (c *execArtifactsCmd) save(ctx context.Context, std *streams, id string, list []client.Artifact) (err error) {
	list = slices.DeleteFunc(slices.Clone(list), func(a client.Artifact) bool { return a.IsReplaced })
	if err := os.MkdirAll(c.Save, 0o755); err != nil {
		return fmt.Errorf("create the directory of the artifacts: %w", err)
	}
	files := artifactFiles(list)
	for _, name := range files {
		if err := c.checkFree(name); err != nil {
			return err
		}
	}
	staging, err := os.MkdirTemp(c.Save, ".artifacts-")
	if err != nil {
		return fmt.Errorf("save the artifacts: %w", err)
	}
	defer os.RemoveAll(staging)
	for i, a := range list {
		if err := c.download(ctx, id, a, filepath.Join(staging, strconv.Itoa(i))); err != nil {
			return fmt.Errorf("save artifact %d (%q): %w", a.Number, a.Name, err)
		}
	}
	var created []string
	defer func() {
		if err != nil {
			for _, path := range created {
				_ = os.Remove(path)
			}
		}
	}()
	for i, name := range files {
		path := filepath.Join(c.Save, name)
		if !c.Overwrite {
			if err := c.reserve(name); err != nil {
				return err
			}
			created = append(created, path)
		}
		if err := os.Rename(filepath.Join(staging, strconv.Itoa(i)), path); err != nil {
			return fmt.Errorf("save artifact %d (%q): %w", list[i].Number, list[i].Name, err)
		}
	}
	for _, name := range files {
		std.err.Printf("saved %s\n", terminal.OneLine(filepath.Join(c.Save, name), 400))
	}
	return nil
}

// checkFree returns an error if no artifact can be written to a file.
func (c *execArtifactsCmd) checkFree(name string) error {
	path := filepath.Join(c.Save, name)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("save the artifacts: %w", err)
	case !c.Overwrite:
		return errFileExists(path)
	case info.IsDir():
		return fmt.Errorf("save the artifacts: %s is a directory; choose another directory for --save", path)
	}
	return nil
}

// reserve creates an empty file that did not exist.
func (c *execArtifactsCmd) reserve(name string) error {
	path := filepath.Join(c.Save, name)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return errFileExists(path)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return fmt.Errorf("save the artifacts: %w", err)
	}
	return nil
}

func errFileExists(path string) error {
	return fmt.Errorf("save the artifacts: %s exists, and nothing was written; give --overwrite to replace it, or choose another directory", path)
}

// download writes the bytes of an artifact to a new file.
func (c *execArtifactsCmd) download(ctx context.Context, id string, a client.Artifact, path string) error {
	content, err := c.api().Artifact(ctx, id, a.Name, a.Number)
	if err != nil {
		return err
	}
	defer content.Close()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, content)
	if err == nil && n != a.Size {
		err = fmt.Errorf("the server sent %d bytes of %d", n, a.Size)
	}
	return cmp.Or(err, f.Close())
}

// artifactFiles returns the names of the files for artifacts. No two are equal, also where
// the file system ignores the case of letters: the first of equal names keeps it, and the
// others get a number before the extension.
func artifactFiles(list []client.Artifact) []string {
	files, used := make([]string, len(list)), map[string]bool{}
	take := func(name string) bool {
		key := strings.ToLower(strings.ToUpper(name))
		if used[key] {
			return false
		}
		used[key] = true
		return true
	}
	for i, a := range list {
		if name := artifactFile(a); take(name) {
			files[i] = name
		}
	}
	for i, a := range list {
		name := artifactFile(a)
		ext := filepath.Ext(name)
		if len(ext) == len(name) { // a name such as .env
			ext = ""
		}
		for n := 2; files[i] == ""; n++ {
			if numbered := fmt.Sprintf("%s-%d%s", strings.TrimSuffix(name, ext), n, ext); take(numbered) {
				files[i] = numbered
			}
		}
	}
	return files
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
