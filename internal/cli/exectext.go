package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

type execTextCmd struct {
	clientFlags
	oneExecution
	Text string `arg:"" optional:"" help:"Text to print: code, result or error." default:"result" enum:"code,result,error" placeholder:"TEXT"`
}

// Help is shown by "daybook exec text --help".
func (c *execTextCmd) Help() string {
	return "Prints the complete recorded text, also if it is larger than one answer of the server and \"daybook exec get\" shows only its beginning. With --json the text is a JSON string."
}

// Run prints the text.
func (c *execTextCmd) Run(ctx context.Context, std *streams) error {
	path, err := c.path(ctx, c.clientFlags)
	if err != nil {
		return err
	}
	if !c.JSON {
		return c.copyText(ctx, std, path, c.Text)
	}
	resp, err := c.send(ctx, http.MethodGet, path+"/texts/"+c.Text, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return asUnavailable(ctx, fmt.Errorf("read the server's answer: %w", err))
	}
	raw, err := json.Marshal(string(text))
	if err != nil {
		return err
	}
	return std.out.writeJSON(string(raw))
}

// copyText prints a text of the execution and ends the line.
func (f clientFlags) copyText(ctx context.Context, std *streams, path, name string) error {
	resp, err := f.send(ctx, http.MethodGet, path+"/texts/"+name, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(std.out, resp.Body); err != nil {
		return asUnavailable(ctx, fmt.Errorf("read the server's answer: %w", err))
	}
	_, err = fmt.Fprintln(std.out)
	return err
}
