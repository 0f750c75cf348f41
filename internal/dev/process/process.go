// Package process runs servers for measurements: it starts one, waits until it answers, reads its
// processor time and memory, and stops it.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// BuildDaybook builds the program of the working tree into a directory and returns its path.
func BuildDaybook(ctx context.Context, dir string) (string, error) {
	bin := filepath.Join(dir, "daybook")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return bin, nil
}

// Server is a running process that answers HTTP requests at URL.
type Server struct {
	Name string
	URL  string
	cmd  *exec.Cmd
	log  *os.File
	done chan error // has the result of the process once it has ended
}

// Config describes the process of a server.
type Config struct {
	// Name is for messages and for the file of the log, which is in Dir.
	Name, Dir string
	URL       string
	// Env are variables beside those of this process.
	Env []string
	// Command is the program and its arguments.
	Command []string
	// Ready is the path for which Start waits until it is answered with a status below 500.
	// Empty for none.
	Ready string
}

// readyWithin limits how long a server may take to answer its first request.
const readyWithin = time.Hour

// Start starts a server. The caller MUST call Stop or Kill.
func Start(ctx context.Context, c Config) (*Server, error) {
	log, err := os.Create(filepath.Join(c.Dir, c.Name+".log"))
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(c.Command[0], c.Command[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = c.Dir, append(os.Environ(), c.Env...), log, log
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", c.Name, err), log.Close())
	}
	s := &Server{Name: c.Name, URL: c.URL, cmd: cmd, log: log, done: make(chan error, 1)}
	go func() { s.done <- cmd.Wait() }()
	if c.Ready != "" {
		if err := s.await(ctx, c.Ready); err != nil {
			return nil, errors.Join(err, s.Kill())
		}
	}
	return s, nil
}

func (s *Server) await(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode < 500 {
				return nil
			}
		}
		select {
		case err := <-s.done:
			s.done <- err
			return fmt.Errorf("%s ended: %w%s", s.Name, err, s.tail())
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer at %s%s: %w%s", s.Name, s.URL, path, ctx.Err(), s.tail())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// tail returns the end of the server's output.
func (s *Server) tail() string {
	raw, err := os.ReadFile(s.log.Name())
	if err != nil {
		return ""
	}
	return "\n" + string(raw[max(len(raw)-2000, 0):])
}

// Stop asks the process to end and waits for its end. If it has not ended within a minute, Stop kills
// it and returns an error, because the next start is then none after a clean stop.
func (s *Server) Stop() error {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it fails only if the process has ended
	select {
	case err := <-s.done:
		s.done <- err // an exit status says nothing about the measurement
	case <-time.After(time.Minute):
		return errors.Join(fmt.Errorf("%s did not end within a minute and was killed", s.Name), s.Kill())
	}
	return s.log.Close()
}

// Kill kills the process and waits for its end.
func (s *Server) Kill() error {
	_ = s.cmd.Process.Kill() // it fails only if the process has ended
	s.done <- <-s.done       // an exit status says nothing here
	return s.log.Close()
}

// clockTick is the unit of processor times in /proc. Linux uses 100 per second on amd64.
const clockTick = 10 * time.Millisecond

// CPU returns the processor time of the process without its children; 0 for a nil Server.
func (s *Server) CPU() time.Duration {
	if s == nil {
		return 0
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	// The name of the program is in parentheses and can have spaces.
	fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
	const user, system = 11, 12
	ticks := 0
	for _, field := range [][]byte{fields[user], fields[system]} {
		n, _ := strconv.Atoi(string(field))
		ticks += n
	}
	return time.Duration(ticks) * clockTick
}

// Resident returns the resident memory of the process without its children, in bytes; 0 if it is
// unknown.
func (s *Server) Resident() int64 { return resident(s.cmd.Process.Pid) }

// Anonymous returns the part of Resident that no file has, in bytes: without the program, its
// libraries and shared mappings, which the system can read again; 0 if it is unknown.
func (s *Server) Anonymous() int64 { return memory(s.cmd.Process.Pid, "RssAnon:") }

// Peak returns the largest resident memory that a process had since it started its program, in
// bytes; 0 if it is unknown.
func Peak(pid int) int64 { return memory(pid, "VmHWM:") }

// memory returns a figure of the status of a process in bytes, or 0 if it is unknown.
func memory(pid int, name string) int64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(raw) {
		if rest, ok := bytes.CutPrefix(line, []byte(name)); ok {
			kib, _ := strconv.ParseInt(string(bytes.TrimSuffix(bytes.TrimSpace(rest), []byte(" kB"))), 10, 64)
			return kib << 10
		}
	}
	return 0
}

// ChildrenResident returns the resident memory of each child of the process, in bytes.
func (s *Server) ChildrenResident() (sizes []int64) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", s.cmd.Process.Pid)) // the pattern is valid
	for _, path := range tasks {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended
		}
		for _, field := range bytes.Fields(raw) {
			if pid, err := strconv.Atoi(string(field)); err == nil {
				sizes = append(sizes, resident(pid))
			}
		}
	}
	return sizes
}

func resident(pid int) int64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	fields := bytes.Fields(raw)
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	return pages * int64(os.Getpagesize())
}

// FreeAddr returns a loopback address whose port was free.
func FreeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
