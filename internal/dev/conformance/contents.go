package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// contentTools returns the tools that answer with each kind of content.
func (f *fixtures) contentTools() []fixture {
	picture := &sdk.ImageContent{Data: pixel(), MIMEType: "image/png"}
	return []fixture{
		{name: "greet", about: "Greets by name, at once", call: func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return textResult("Hello, " + argument(req, "name") + "!"), nil
		}},
		{name: "test_simple_text", about: "Answers with text", call: constantAnswer(text("This is a simple text response for testing."))},
		{name: "test_image_content", about: "Answers with an image", call: constantAnswer(picture)},
		{name: "test_audio_content", about: "Answers with a sound", call: constantAnswer(&sdk.AudioContent{Data: silence(), MIMEType: "audio/wav"})},
		{name: "test_embedded_resource", about: "Answers with a resource", call: constantAnswer(embeddedResource("test://embedded-resource", "This is an embedded resource content."))},
		{name: "test_multiple_content_types", about: "Answers with text, an image and a resource", call: constantAnswer(
			text("Multiple content types test:"), picture, embeddedResource("test://mixed-content-resource", `{"test":"data","value":123}`))},
		{name: "test_error_handling", about: "Fails", call: func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			res := textResult("This tool intentionally returns an error for testing")
			res.IsError = true
			return res, nil
		}},
	}
}

func embeddedResource(uri, body string) *sdk.EmbeddedResource {
	kind := "text/plain"
	if strings.HasPrefix(body, "{") {
		kind = "application/json"
	}
	return &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: uri, MIMEType: kind, Text: body}}
}

// pixel returns a PNG image of one red pixel.
func pixel() []byte {
	img := image.NewRGBA(image.Rect(0, 0, 1, 1))
	img.Set(0, 0, color.RGBA{R: 255, A: 255})
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		panic(err) // a write to a buffer cannot fail
	}
	return b.Bytes()
}

// silence returns a WAV sound of one sample.
func silence() []byte {
	const rate = 8000
	b := []byte("RIFF\x00\x00\x00\x00WAVEfmt ")
	for _, v := range []any{uint32(16), uint16(1), uint16(1), uint32(rate), uint32(rate), uint16(1), uint16(8)} {
		b, _ = binary.Append(b, binary.LittleEndian, v) // cannot fail: all have a fixed size
	}
	b = append(b, "data\x01\x00\x00\x00\x80\x00"...)
	binary.LittleEndian.PutUint32(b[4:], uint32(len(b)-8))
	return b
}

func (f *fixtures) addResources() {
	read := func(kind string, body func(uri string) sdk.ResourceContents) sdk.ResourceHandler {
		return func(_ context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			c := body(req.Params.URI)
			c.URI, c.MIMEType = req.Params.URI, kind
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{&c}}, nil
		}
	}
	constant := func(s string) func(string) sdk.ResourceContents {
		return func(string) sdk.ResourceContents { return sdk.ResourceContents{Text: s} }
	}
	for _, r := range []struct {
		name, kind string
		body       func(string) sdk.ResourceContents
	}{
		{"static-text", "text/plain", constant("This is the content of the static text resource.")},
		{"static-binary", "image/png", func(string) sdk.ResourceContents { return sdk.ResourceContents{Blob: pixel()} }},
		{"watched-resource", "text/plain", constant("Watched resource content")},
	} {
		f.server.AddResource(&sdk.Resource{Name: r.name, Description: "A resource of the conformance suite", MIMEType: r.kind, URI: scheme + r.name}, read(r.kind, r.body))
	}
	f.server.AddResourceTemplate(&sdk.ResourceTemplate{
		Name: "template", Description: "A resource with a parameter", MIMEType: "application/json", URITemplate: scheme + "template/{id}/data",
	}, read("application/json", func(uri string) sdk.ResourceContents {
		id := strings.TrimSuffix(strings.TrimPrefix(uri, scheme+"template/"), "/data")
		return sdk.ResourceContents{Text: fmt.Sprintf(`{"id":%q,"templateTest":true,"data":"Data for ID: %s"}`, id, id)}
	}))
}

func (f *fixtures) addPrompts() {
	type build func(args map[string]string) []sdk.Content
	for _, p := range []struct {
		name      string
		arguments []string
		build     build
	}{
		{"test_simple_prompt", nil, func(map[string]string) []sdk.Content {
			return []sdk.Content{text("This is a simple prompt for testing.")}
		}},
		{"test_prompt_with_arguments", []string{"arg1", "arg2"}, func(a map[string]string) []sdk.Content {
			return []sdk.Content{text(fmt.Sprintf("Prompt with arguments: arg1='%s', arg2='%s'", a["arg1"], a["arg2"]))}
		}},
		{"test_prompt_with_embedded_resource", []string{"resourceUri"}, func(a map[string]string) []sdk.Content {
			return []sdk.Content{embeddedResource(a["resourceUri"], "Embedded resource content for testing."), text("Please process the embedded resource above.")}
		}},
		{"test_prompt_with_image", nil, func(map[string]string) []sdk.Content {
			return []sdk.Content{&sdk.ImageContent{Data: pixel(), MIMEType: "image/png"}, text("Please analyze the image above.")}
		}},
	} {
		prompt := &sdk.Prompt{Name: p.name, Description: "A prompt of the conformance suite"}
		for _, name := range p.arguments {
			prompt.Arguments = append(prompt.Arguments, &sdk.PromptArgument{Name: name, Description: "Any text", Required: true})
		}
		f.server.AddPrompt(prompt, func(_ context.Context, req *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			res := &sdk.GetPromptResult{}
			for _, c := range p.build(req.Params.Arguments) {
				res.Messages = append(res.Messages, &sdk.PromptMessage{Role: "user", Content: c})
			}
			return res, nil
		})
	}
	f.server.AddPrompt(&sdk.Prompt{Name: "test_input_required_result_prompt", Description: "Asks for its context first"}, askForContext)
}
