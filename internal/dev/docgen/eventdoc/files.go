package eventdoc

import "fmt"

// Files returns every document about the catalog whose source is in dir, by its path
// below docs.
func Files(dir string) (map[string][]byte, error) {
	c, err := Load(dir)
	if err != nil {
		return nil, err
	}
	schemas, err := c.Schemas()
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for name, raw := range schemas {
		files["reference/events/"+name] = raw
	}
	if files["reference/asyncapi.json"], err = c.AsyncAPI(); err != nil {
		return nil, fmt.Errorf("encode the AsyncAPI document: %w", err)
	}
	if files["events.md"], err = c.Markdown(); err != nil {
		return nil, err
	}
	return files, nil
}
