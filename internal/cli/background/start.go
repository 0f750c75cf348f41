package background

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"daybook/embed"
)

// Start starts the owner of a data directory in the background. It blocks until
// the owner serves, reports an error or exits, or ctx is done. settings are flags as
// --name=value. notice gets one line per notice of the owner. It returns embed.ErrLocked if
// another process owns the directory, embed.ErrNotServing if the owner exited without a report
// or a signal interrupted its start, and OptionError if the owner refuses an option.
func Start(ctx context.Context, dir string, settings []string, notice func(string)) error {
	program, err := os.Executable()
	if err == nil {
		if _, missing := os.Stat(program); missing != nil {
			program = "/proc/self/exe" // the program file was replaced or removed
		}
	} else {
		return fmt.Errorf("find the program to start: %w", err)
	}
	log, err := openFile(dir)
	if err != nil {
		return err
	}
	defer log.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start the process that owns %s: %w", dir, err)
	}
	defer r.Close()
	config, err := configOf(settings)
	if err != nil {
		return fmt.Errorf("start the process that owns %s: %w", dir, err)
	}
	closeInheritedOnExec()
	cmd := exec.Command(program, "owner", "--data-dir="+dir, fmt.Sprintf("--report-fd=%d", reportFD), "--config=/proc/self/fd/0") //nolint:noctx // the owner outlives this process
	cmd.Stdin = bytes.NewReader(config)
	cmd.Stderr, cmd.ExtraFiles = log, []*os.File{w}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	w.Close()
	if err != nil {
		return fmt.Errorf("start the process that owns %s: %w", dir, err)
	}
	go func() { _ = cmd.Wait() }() // reaps the process if it exits first
	stop := context.AfterFunc(ctx, func() { r.Close() })
	defer stop()
	var got Report
	if err := json.NewDecoder(r).Decode(&got); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("start the process that owns %s: it exited without a report; see %s (%w)", dir, log.Name(), embed.ErrNotServing)
	}
	for _, note := range got.Notes {
		notice(note)
	}
	switch {
	case got.Ready:
		return nil
	case got.Locked:
		return embed.ErrLocked
	case got.Stopped:
		return fmt.Errorf("start the process that owns %s: %s (%w)", dir, got.Error, embed.ErrNotServing)
	case got.Usage:
		return OptionError{fmt.Errorf("start the process that owns %s: %s", dir, got.Error)}
	default:
		return fmt.Errorf("start the process that owns %s: %s", dir, got.Error)
	}
}

// Report is the report of a background owner to the process that started it, as one
// line of JSON.
type Report struct {
	Ready bool `json:"ready,omitempty"`
	// Locked reports that another process owns the directory.
	Locked bool `json:"locked,omitempty"`
	// Stopped reports that a signal interrupted the start.
	Stopped bool `json:"stopped,omitempty"`
	// Usage reports that an option is invalid, such as the data directory.
	Usage bool     `json:"usage,omitempty"`
	Error string   `json:"error,omitempty"`
	Notes []string `json:"notes,omitempty"`
}

// reportFD is the file descriptor for the report.
const reportFD = 3

// ReportTo returns the function through which an owner reports once on a file descriptor.
// It does nothing if fd is not reportFD, as without a process that waits for the report.
func ReportTo(fd int) func(Report) {
	if fd != reportFD {
		return func(Report) {}
	}
	to := os.NewFile(reportFD, "report")
	syscall.CloseOnExec(reportFD)
	return func(r Report) {
		_ = json.NewEncoder(to).Encode(r) // a starter that has exited needs no report
		to.Close()
	}
}

// OptionError reports that an owner refuses an option, such as the data directory.
type OptionError struct{ error }

// configOf returns the content of a file for --config with these settings. The owner gets
// them in a file because other users can read its command line, and the user may have
// given settings in a file or an environment variable to hide them.
func configOf(settings []string) ([]byte, error) {
	values := map[string][]string{}
	for _, setting := range settings {
		name, value, _ := strings.Cut(strings.TrimPrefix(setting, "--"), "=")
		values[name] = append(values[name], value)
	}
	config := map[string]any{}
	for name, list := range values {
		if config[name] = list; len(list) == 1 {
			config[name] = list[0]
		}
	}
	return json.Marshal(config)
}

// closeInheritedOnExec marks the descriptors that this process inherited, such as a
// pipe or a locked file, as close-on-exec. The background owner must not keep them
// open. Go marks its own files itself.
func closeInheritedOnExec() {
	open, _ := os.ReadDir("/proc/self/fd") // without /proc the owner cannot read its configuration either
	for _, entry := range open {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}
