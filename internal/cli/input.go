package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"

	"daybook/embed"
)

// inputFailures are the system errors that the user can resolve by naming another file,
// directory or address.
var inputFailures = []syscall.Errno{
	syscall.ENOENT, syscall.EEXIST, syscall.EACCES, syscall.EPERM, syscall.ENOTDIR, syscall.EISDIR,
	syscall.ENAMETOOLONG, syscall.ELOOP, syscall.EROFS, syscall.EADDRNOTAVAIL,
}

// inputError returns an error of a command that only reads its arguments and files as a
// usageError. Other errors of the system, such as a full disk, are returned unchanged.
func inputError(err error) error {
	if err == nil {
		return nil
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok && !slices.Contains(inputFailures, errno) {
		return err
	}
	return usageError{err}
}

// optionError is inputError for errors of package embed about an option or about the
// directory of an export. The message names the flag instead of the option.
func optionError(err error) error {
	if _, ok := errors.AsType[*embed.ExportDirError](err); ok {
		return inputError(err)
	}
	if _, ok := errors.AsType[*embed.OptionError](err); ok {
		return inputError(flagError{error: err})
	}
	return err
}

// checkExportDir returns an error unless dir is a directory.
func checkExportDir(dir string) error {
	switch info, err := os.Stat(dir); {
	case err != nil:
		return inputError(fmt.Errorf("--export: %w", err))
	case !info.IsDir():
		return usageError{fmt.Errorf("--export %s: an export is a directory; name the one that \"daybook events export\" created", dir)}
	}
	return nil
}
