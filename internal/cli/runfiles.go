package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"daybook/internal/modules/runfiles"
)

// filesOf reads the files of a run, given as PATH or NAME=PATH. PATH alone is also the name.
func filesOf(list []string) (map[string]string, error) {
	if len(list) == 0 {
		return nil, nil
	}
	files := map[string]string{}
	for _, one := range list {
		name, path, named := strings.Cut(one, "=")
		if !named {
			name, path = filepath.ToSlash(filepath.Clean(one)), one
		}
		if _, twice := files[name]; twice {
			return nil, usageError{fmt.Errorf("--file %s: the run has two files of this name", name)}
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, usageError{err}
		}
		files[name] = string(text)
	}
	if err := runfiles.Check(files); err != nil {
		return nil, usageError{fmt.Errorf("%w; give a name for it: --file NAME=PATH", err)}
	}
	return files, nil
}
