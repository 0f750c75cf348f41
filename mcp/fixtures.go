package mcp

import (
	"context"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/ledger"
)

// Fixtures are the tools, prompts and resources that a test suite expects. Their calls
// pass through the same middleware as those of the product's own tools.
type Fixtures struct {
	// Mount is called once for each server and adds tools, prompts and resources.
	Mount func(*sdk.Server)
	// Scheme is the prefix of the resources' addresses.
	Scheme string
	// Complete handles requests for completions.
	Complete func(context.Context, *sdk.CompleteRequest) (*sdk.CompleteResult, error)
	// Scripts are tools that run one script each, also as tasks.
	Scripts []Script
}

// Script is a tool that runs a script.
type Script struct {
	Name, About string
	// Texts and Integers are the names of the arguments.
	Texts, Integers []string
	// TaskOnly refuses clients that do not support tasks.
	TaskOnly bool
	// Code returns the script for the arguments of a call. Absent arguments are empty or 0.
	Code func(text func(name string) string, integer func(name string) int64) string
}

// declareFixtures adds the capabilities that the fixtures need.
func declareFixtures(o *sdk.ServerOptions, f *Fixtures) {
	o.CompletionHandler = f.Complete
	o.Capabilities.Completions = &sdk.CompletionCapabilities{}
	o.Capabilities.Tools.ListChanged = true
	o.Capabilities.Prompts = &sdk.PromptCapabilities{ListChanged: true}
}

// isFixture reports whether an address belongs to a fixture.
func (s *Server) isFixture(uri string) bool {
	return s.opts.Fixtures != nil && strings.HasPrefix(uri, s.opts.Fixtures.Scheme)
}

func (s *Server) fixtureTools() []tool {
	if s.opts.Fixtures == nil {
		return nil
	}
	var tools []tool
	for _, f := range s.opts.Fixtures.Scripts {
		t := tool{name: f.Name, title: f.Name, description: f.About, output: objectSchema(typedField("execution_id", "string")), finish: s.finishRun, taskOnly: f.TaskOnly}
		for _, name := range f.Texts {
			t.input = append(t.input, property{name: name, kind: text})
		}
		for _, name := range f.Integers {
			t.input = append(t.input, property{name: name, kind: integer})
		}
		t.submit = func(ctx context.Context, c caller, a arguments) (ledger.Receipt, error) {
			sub := s.submission(c, a)
			sub.Code = f.Code(a.text, func(name string) int64 { return a.integer(name, 0) })
			return s.opts.Commands.Submit(ctx, sub)
		}
		tools = append(tools, t)
	}
	return tools
}
