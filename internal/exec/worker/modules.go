package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"daybook/internal/exec/bundle"
	"daybook/runner"
)

// Limits of the imports of one run.
const (
	maxImports = 256
	// maxSpecifierSize is the maximum size of a specifier in the protocol, in bytes.
	maxSpecifierSize = 512
	// maxModulesError is the maximum size of the error of an answer, in bytes.
	maxModulesError = 16 << 10
)

// importsMessage asks for the bundle of the packages that a script imports.
type importsMessage struct {
	Specifiers []string `json:"specifiers"`
}

// modulesHeader precedes the bundle that the worker asked for. With an Error there is none.
type modulesHeader struct {
	Error string `json:"error,omitempty"`
	Size  int    `json:"size"`
}

// takeImports checks a request for packages. A worker may make one, before any code runs.
func (c *frameChecker) takeImports(payload []byte) error {
	var m importsMessage
	if err := decodeMessage(payload, &m); err != nil {
		return err
	}
	if len(m.Specifiers) == 0 || len(m.Specifiers) > maxImports {
		return fmt.Errorf("%w: a request for %d packages", errProtocol, len(m.Specifiers))
	}
	for _, s := range m.Specifiers {
		if s == "" || len(s) > maxSpecifierSize || !utf8.ValidString(s) {
			return fmt.Errorf("%w: a malformed specifier", errProtocol)
		}
	}
	c.imports, c.hasImported = m.Specifiers, true
	return nil
}

// serveImports answers a request for packages. An error ends the run.
func (p *process) serveImports(ctx context.Context, c *frameChecker, modules runner.Modules) error {
	specifiers := c.imports
	c.imports = nil
	if specifiers == nil {
		return nil
	}
	encoded, err := modules.Bundle(ctx, specifiers)
	refused, isRefused := errors.AsType[*runner.ModulesError](err)
	var h modulesHeader
	switch {
	case isRefused:
		h.Error, encoded = refused.Text[:min(len(refused.Text), maxModulesError)], nil
	case err != nil:
		return err
	case len(encoded) > bundle.MaxBundle:
		return fmt.Errorf("a bundle of %d bytes, at most %d are allowed", len(encoded), bundle.MaxBundle)
	}
	h.Size = len(encoded)
	p.writing.Lock()
	defer p.writing.Unlock()
	// If the worker is dead, perform notices it when it reads.
	_ = writeBuffered(p.to, func(w io.Writer) error {
		if err := writeMessage(w, frameModules, h); err != nil {
			return err
		}
		return writeBody(w, encoded)
	})
	return nil
}

// modulesAnswer is an answer of the parent.
type modulesAnswer struct {
	err     string
	encoded []byte
}

// readModules reads an answer and delivers it to the job that waits for it.
func (s *server) readModules(payload []byte) error {
	var h modulesHeader
	if err := decodeMessage(payload, &h); err != nil {
		return err
	}
	if h.Size < 0 || h.Size > bundle.MaxBundle {
		return fmt.Errorf("%w: a bundle of %d bytes", errProtocol, h.Size)
	}
	encoded, err := readPart(&s.in, make([]byte, 0, min(h.Size, firstPiece)), h.Size)
	if err != nil {
		return err
	}
	s.mu.Lock()
	waiting := s.waiting
	s.waiting = nil
	s.mu.Unlock()
	if waiting != nil {
		waiting <- modulesAnswer{h.Error, encoded}
	}
	return nil
}

// requestModules asks the parent for packages and waits for the answer. It returns errStopped
// if the run is stopped meanwhile.
func (s *server) requestModules(specifiers []string) (modulesAnswer, error) {
	answer := make(chan modulesAnswer, 1)
	s.mu.Lock()
	if s.stop {
		s.mu.Unlock()
		return modulesAnswer{}, errStopped
	}
	s.waiting = answer
	s.mu.Unlock()
	if err := s.message(frameImports, importsMessage{specifiers}); err != nil {
		return modulesAnswer{}, err
	}
	a, ok := <-answer // terminate closes it
	if !ok {
		return modulesAnswer{}, errStopped
	}
	return a, nil
}

// bundlePackages performs a task that makes a bundle. It returns the encoded bundle.
func bundlePackages(request []byte) ([]byte, error) {
	r, err := bundle.DecodeRequest(request)
	if err != nil {
		return nil, err
	}
	b, err := bundle.Build(r)
	if err != nil {
		return nil, err
	}
	return b.Encode()
}
