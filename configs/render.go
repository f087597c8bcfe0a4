package configs

import (
	"bytes"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// YAML is the config as a file that Load reads, with secrets redacted.
func (c Config) YAML() ([]byte, error) {
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(c.Redacted()); err != nil {
		return nil, fmt.Errorf("render config: %w", err)
	}
	return out.Bytes(), nil
}

// JSON is the same as [Config.YAML] as one JSON object: durations are text with
// a unit.
func (c Config) JSON() ([]byte, error) {
	text, err := c.YAML()
	if err != nil {
		return nil, err
	}
	var tree map[string]any
	if err := yaml.Unmarshal(text, &tree); err != nil {
		return nil, fmt.Errorf("render config: %w", err)
	}
	return json.MarshalIndent(tree, "", "  ")
}
